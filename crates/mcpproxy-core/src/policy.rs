//! The operator's policies, in Cedar. A call that passes the other checks is allowed unless a policy forbids it.

pub(crate) mod facts;
mod mistake;
mod read;
mod scan;
mod scope;
#[cfg(test)]
mod tests;
pub(crate) mod tool;
mod vocabulary;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cedar_policy::Expression;

use crate::contract::Effective;
use crate::{Digest, Hints, Mistake, ToolName};
use facts::Facts;
use mistake::Fault;
use read::Mentions;
use scope::{Resource, Scope};

pub use crate::denial::Violation;
pub use crate::time::Clock;
pub use tool::{Outcome, ToolPolicies};
pub use vocabulary::SCHEMA;

pub const POLICIES_MAX: usize = 1_000;
const ALL_MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of reported mistakes. Finding the line of each costs a pass over the file.
const MISTAKES_MAX: usize = 20;

/// All policies of all files, validated against the Cedar schema.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    all: Vec<Arc<Policy>>,
    by_resource: HashMap<Resource, Arc<[Arc<Policy>]>>,
}

/// Compares text and source location.
impl PartialEq for Policies {
    fn eq(&self, other: &Self) -> bool {
        let place = |policy: &Arc<Policy>| (Arc::clone(&policy.file), policy.line, policy.text.clone());
        self.all.iter().map(place).eq(other.all.iter().map(place))
    }
}

/// One `forbid` statement.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The `@id`, or file and line if there is none.
    pub id: String,
    pub file: Arc<str>,
    pub line: usize,
    /// The `@message`, escaped for terminals.
    pub message: Option<String>,
    /// The policy as written in the file.
    pub text: String,
    order: usize,
    scope: Scope,
    /// `None` if the policy has no `when` or `unless`.
    condition: Option<Expression>,
    mentions: Mentions,
}

/// The tool that policies are evaluated for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'t> {
    pub name: &'t ToolName,
    pub hints: Hints,
    pub contract: &'t Effective,
}

impl Policies {
    /// Parses policy files, given as names and texts. Each mistake comes with the name of its file.
    pub fn parse(files: &[(String, String)]) -> Result<Self, Vec<(String, Mistake)>> {
        let mut reader = Reader::default();
        if files.iter().map(|(_, text)| text.len()).sum::<usize>() > ALL_MAX_BYTES {
            let name = files.first().map(|(name, _)| name.clone()).unwrap_or_default();
            let message = format!("the policy files are larger than {} KiB in total", ALL_MAX_BYTES / 1024);
            return Err(vec![(name, Mistake { line: 1, column: 1, message })]);
        }
        for (name, text) in files {
            reader.file(name, text);
        }
        if reader.mistakes.is_empty() { Ok(Self::index(reader.policies)) } else { Err(reader.mistakes) }
    }

    fn index(policies: Vec<Policy>) -> Self {
        let mut by_resource: HashMap<Resource, Vec<Arc<Policy>>> = HashMap::new();
        let mut all = Vec::with_capacity(policies.len());
        for (order, policy) in policies.into_iter().enumerate() {
            let policy = Arc::new(Policy { order, ..policy });
            by_resource.entry(policy.scope.resource.clone()).or_default().push(Arc::clone(&policy));
            all.push(policy);
        }
        let by_resource = by_resource.into_iter().map(|(resource, policies)| (resource, policies.into())).collect();
        Self { all, by_resource }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Hash of every policy as written, without source locations. The order of files and policies does not matter.
    pub fn digest(&self) -> Digest {
        let mut texts: Vec<&str> = self.iter().map(|policy| policy.text.as_str()).collect();
        texts.sort_unstable();
        // Each text is preceded by its length, so that different policies never give the same bytes.
        let bytes: Vec<u8> =
            texts.iter().flat_map(|text| text.len().to_be_bytes().into_iter().chain(text.bytes())).collect();
        Digest::of(&bytes)
    }

    /// Returns all policies, in the order of files and lines.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.all.iter().map(AsRef::as_ref)
    }

    /// Returns the policies of `before` that are gone here. One that moved, or got another `@id` or `@message`, is not.
    pub fn gone_since<'b>(&self, before: &'b Self) -> Vec<&'b Policy> {
        let here: HashSet<&str> = self.iter().map(Policy::statement).collect();
        before.iter().filter(|policy| !here.contains(policy.statement())).collect()
    }

    /// Returns these policies, and behind them the others.
    pub(crate) fn with<'p>(&self, others: impl IntoIterator<Item = &'p Policy>) -> Self {
        Self::index(self.iter().cloned().chain(others.into_iter().cloned()).collect())
    }

    /// Returns the policies that can apply to this tool, or `None` if there are none.
    pub fn for_tool(&self, tool: Subject<'_>) -> Option<ToolPolicies> {
        if self.is_empty() {
            return None;
        }
        self.for_facts(&Facts::of(tool))
    }

    pub(crate) fn for_facts(&self, facts: &Facts) -> Option<ToolPolicies> {
        let groups = facts.groups();
        let groups: Vec<_> = groups.iter().filter_map(|group| self.by_resource.get(group)).map(Arc::clone).collect();
        (!groups.is_empty()).then(|| ToolPolicies::new(groups))
    }
}

impl Policy {
    /// Returns the text without annotations. Text of an annotation that contains `forbid` is left in it, which is harmless:
    /// the result then differs from that of other policies, and two equal results still mean the same policy.
    fn statement(&self) -> &str {
        self.text.find("forbid").and_then(|start| self.text.get(start..)).unwrap_or(&self.text).trim_end()
    }
}

/// Reads files one after the other.
#[derive(Default)]
struct Reader {
    policies: Vec<Policy>,
    /// The file and line of each id that is in use.
    ids: HashMap<String, (Arc<str>, usize)>,
    count: usize,
    mistakes: Vec<(String, Mistake)>,
}

impl Reader {
    fn file(&mut self, name: &str, text: &str) {
        let scan = scan::scan(text);
        let mut faults: Vec<Fault> = scan.fault.into_iter().collect();
        let file: Arc<str> = name.into();
        let vocabulary = match vocabulary::vocabulary() {
            Ok(vocabulary) => vocabulary,
            Err(error) => {
                let fault = Fault { at: 0, message: error.to_owned() };
                return self.mistakes.push((name.to_owned(), fault.in_text(text)));
            }
        };
        let left = POLICIES_MAX.saturating_sub(self.count);
        self.count += scan.statements.len();
        let mut statements = scan.statements.as_slice();
        if let Some(beyond) = statements.get(left) {
            faults.push(Fault { at: beyond.at, message: format!("there are more than {POLICIES_MAX} policies") });
            statements = &[];
        }
        for statement in statements {
            if faults.len() >= MISTAKES_MAX {
                break;
            }
            match read::policy(&file, statement, vocabulary) {
                Ok((policy, id_at)) => faults.extend(self.keep(policy, id_at, statement.at)),
                Err(found) => faults.extend(found),
            }
        }
        faults.sort();
        faults.truncate(MISTAKES_MAX);
        self.mistakes.extend(faults.into_iter().map(|fault| (name.to_owned(), fault.in_text(text))));
    }

    fn keep(&mut self, policy: Policy, id_at: Option<usize>, start: usize) -> Option<Fault> {
        if let Some((file, line)) = self.ids.get(&policy.id) {
            let message = match id_at {
                Some(_) => {
                    format!(
                        "the policy in {file}, line {line} has the id {} too: give each policy its own @id",
                        policy.id
                    )
                }
                None => format!("another policy already has the id {}: give this one its own @id", policy.id),
            };
            return Some(Fault { at: id_at.unwrap_or(start), message });
        }
        self.ids.insert(policy.id.clone(), (Arc::clone(&policy.file), policy.line));
        self.policies.push(policy);
        None
    }
}
