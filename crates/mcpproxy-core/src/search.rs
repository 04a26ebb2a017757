//! Finding a tool by words: BM25 over name, server, description and parameter names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::json::members;
use crate::{Scope, ServerName};

/// An immutable index over one catalog.
#[derive(Debug, Default)]
pub struct Index {
    tools: Vec<Arc<Tool>>,
    lengths: Vec<f32>,
    mean_length: f32,
    postings: HashMap<String, Vec<Posting>>,
}

#[derive(Debug)]
struct Posting {
    tool: u32,
    weight: f32,
}

#[derive(Clone, Debug)]
pub struct Hit {
    pub tool: Arc<Tool>,
    /// 0 to 1: how near the tool comes to one that has every word of the query.
    pub score: f32,
}

const K1: f32 = 1.2;
const B: f32 = 0.75;
const NAME_WEIGHT: f32 = 3.0;
const SERVER_WEIGHT: f32 = 1.5;
const DESCRIPTION_WEIGHT: f32 = 1.0;
const PARAMETER_WEIGHT: f32 = 0.5;

impl Index {
    pub fn build(catalog: &Catalog) -> Self {
        let mut index = Self::default();
        for tool in catalog.tools() {
            let number = u32::try_from(index.tools.len()).unwrap_or(u32::MAX);
            let mut weights: HashMap<String, f32> = HashMap::new();
            for (text, weight) in texts(tool) {
                for word in words(&text) {
                    *weights.entry(word).or_default() += weight;
                }
            }
            index.lengths.push(weights.values().sum());
            index.tools.push(Arc::clone(tool));
            for (word, weight) in weights {
                index.postings.entry(word).or_default().push(Posting { tool: number, weight });
            }
        }
        index.mean_length = index.lengths.iter().sum::<f32>() / index.lengths.len().max(1) as f32;
        index
    }

    /// The best tools for a query among those the scope may see, best first.
    pub fn find(&self, query: &str, scope: &Scope, server: Option<&ServerName>, limit: usize) -> Vec<Hit> {
        let mut scores: HashMap<u32, f32> = HashMap::new();
        let mut ideal = 0.0;
        for word in words(query).into_iter().collect::<HashSet<_>>() {
            let postings = self.postings.get(&word).map(Vec::as_slice).unwrap_or_default();
            let idf = self.idf(postings.len());
            // A document that has every query word, prominently: what 1.0 means.
            ideal += idf * (K1 + 1.0) * NAME_WEIGHT / (K1 + NAME_WEIGHT);
            for posting in postings {
                let length = self.lengths.get(posting.tool as usize).copied().unwrap_or_default();
                let norm = K1 * (1.0 - B + B * length / self.mean_length);
                *scores.entry(posting.tool).or_default() += idf * (K1 + 1.0) * posting.weight / (posting.weight + norm);
            }
        }
        let mut hits: Vec<Hit> = scores
            .into_iter()
            .filter_map(|(number, score)| {
                let tool = self.tools.get(number as usize)?;
                let is_wanted = server.is_none_or(|server| tool.name.server() == server);
                (is_wanted && scope.sees(tool.name.server()))
                    .then(|| Hit { tool: Arc::clone(tool), score: (score / ideal).clamp(0.0, 1.0) })
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.tool.name.cmp(&b.tool.name)));
        hits.truncate(limit);
        hits
    }

    fn idf(&self, found_in: usize) -> f32 {
        let all = self.tools.len() as f32;
        let found_in = found_in as f32;
        (1.0 + (all - found_in + 0.5) / (found_in + 0.5)).ln()
    }
}

fn texts(tool: &Tool) -> Vec<(String, f32)> {
    let schema = tool.offered.field("inputSchema").and_then(members).unwrap_or_default();
    let properties = schema.iter().find(|(key, _)| key == "properties").and_then(|(_, value)| members(value));
    let parameters: Vec<String> = properties.unwrap_or_default().into_iter().map(|(key, _)| key.into_owned()).collect();
    vec![
        (tool.name.tool().to_owned(), NAME_WEIGHT),
        (tool.name.server().as_str().to_owned(), SERVER_WEIGHT),
        (tool.offered.description.for_json().to_owned(), DESCRIPTION_WEIGHT),
        (parameters.join(" "), PARAMETER_WEIGHT),
    ]
}

/// Splits into lower-case words: `createPullRequest`, `create_pull_request` and `create pull requests` are the same.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous = ' ';
    for c in text.chars() {
        let starts_hump = c.is_uppercase() && previous.is_lowercase();
        if starts_hump || !c.is_alphanumeric() {
            push_word(&mut words, &mut word);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        previous = c;
    }
    push_word(&mut words, &mut word);
    words
}

fn push_word(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(stem(word));
        word.clear();
    }
}

/// A light stemmer: plural and the commonest verb endings.
fn stem(word: &str) -> String {
    let long_enough = |stem: &str| stem.chars().count() >= 3;
    for (ending, replacement) in [("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")] {
        if let Some(stem) = word.strip_suffix(ending)
            && long_enough(stem)
            && !(ending == "s" && stem.ends_with(['s', 'u', 'i']))
        {
            return format!("{stem}{replacement}").trim_end_matches('e').to_owned();
        }
    }
    word.trim_end_matches('e').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Offer, Offered};

    fn catalog(tools: &[(&str, &str, &str)]) -> Catalog {
        let mut servers: HashMap<ServerName, Vec<Result<Offered, _>>> = HashMap::new();
        for (server, name, description) in tools {
            let server = ServerName::parse(server).unwrap();
            let json = format!(
                r#"{{"name":"{name}","description":"{description}","inputSchema":{{"properties":{{"repo":{{}}}}}}}}"#
            );
            servers.entry(server.clone()).or_default().push(Offered::parse(&server, &json));
        }
        Catalog::new(servers.into_iter().map(|(server, tools)| (server, Arc::new(Offer::new(tools).0))))
    }

    #[test]
    fn finds_by_name_description_and_server() {
        let catalog = catalog(&[
            ("github", "create_issue", "Open a new issue"),
            ("github", "list_repos", "List repositories of an organisation"),
            ("mail", "emailsSend", "Sends an email to people"),
        ]);
        let index = Index::build(&catalog);
        let everything = Scope::everything();
        let check = |query: &str, expected: &str| {
            let hits = index.find(query, &everything, None, 1);
            assert_eq!(hits.first().map(|hit| hit.tool.name.to_string()).as_deref(), Some(expected), "{query}");
            assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0));
        };
        check("creating issues", "github:create_issue");
        check("repositories", "github:list_repos");
        check("send email", "mail:emailsSend");
        check("mail", "mail:emailsSend");
        assert!(index.find("weather", &everything, None, 5).is_empty());
        assert!(index.find("", &everything, None, 5).is_empty());
        assert_eq!(index.find("repo", &everything, None, 50).len(), 3);
        let only_mail = Scope { servers: Some(vec![ServerName::parse("mail").unwrap()]), ..Scope::everything() };
        assert!(index.find("create issue", &only_mail, None, 5).is_empty());
    }

    #[test]
    fn words_split_and_stem() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("createPullRequest", &["creat", "pull", "request"]);
        check("create_pull-requests", &["creat", "pull", "request"]);
        check("HTTPServer v2", &["httpserver", "v2"]);
        check("repositories repository", &["repository", "repository"]);
    }
}
