//! Reads the evaluation sets: tools as a catalog, and queries with the tools that answer them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use mcpproxy_core::{Catalog, Index, Offer, Offered, ServerName, ToolName};
use serde_json::{Map, Value, json};

use super::{names, schemas};

pub(super) const FOLDER: &str = "xtask/data/search";

/// The sets that count towards the mean.
pub(super) const MEASURED: [&str; 6] =
    ["toucan-mcp", "livemcpbench", "bfcl", "metatool", "sealtools", "stabletoolbench"];

/// A set that does not count towards the mean, because it is small and was used during development.
pub(super) const BESIDE: &str = "mcpproxy-golden";

pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) catalog: Catalog,
    pub(super) index: Index,
    pub(super) queries: Vec<Query>,
}

pub(super) struct Query {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) groups: Vec<Vec<ToolName>>,
}

impl Set {
    pub(super) fn read(root: &Path, name: &'static str) -> anyhow::Result<Self> {
        let tools = Tools::read(root, name)?;
        let catalog = tools.catalog()?;
        let queries = lines(root, name, "queries.jsonl")?;
        let queries: anyhow::Result<Vec<Query>> = queries.iter().map(|line| Query::of(line, &tools.names)).collect();
        let queries = queries.with_context(|| format!("the queries of `{name}`"))?;
        Ok(Self { name, index: Index::build(&catalog), catalog, queries })
    }
}

impl Query {
    fn of(line: &Value, names: &HashMap<String, ToolName>) -> anyhow::Result<Self> {
        let id = text(line, "id")?;
        let groups = line.get("relevant").and_then(Value::as_array).context("no `relevant`")?;
        let tool = |id: &Value| id.as_str().and_then(|id| names.get(id)).cloned();
        let group = |group: &Value| group.as_array()?.iter().map(tool).collect::<Option<Vec<_>>>();
        let groups: Option<Vec<_>> = groups.iter().map(group).collect();
        let groups = groups.filter(|groups| !groups.is_empty() && groups.iter().all(|group| !group.is_empty()));
        let groups = groups.with_context(|| format!("query `{id}` names no tool, or an unknown one"))?;
        Ok(Self { text: text(line, "query")?, id, groups })
    }
}

/// The tools of a set, as their servers would list them.
pub(super) struct Tools {
    pub(super) listed: BTreeMap<ServerName, Vec<Map<String, Value>>>,
    /// Tool names by the IDs of the set.
    names: HashMap<String, ToolName>,
}

impl Tools {
    pub(super) fn read(root: &Path, set: &str) -> anyhow::Result<Self> {
        let mut given = names::Given::default();
        let mut tools = Self { listed: BTreeMap::new(), names: HashMap::new() };
        for line in lines(root, set, "tools.jsonl")? {
            let id = text(&line, "id")?;
            let own_name = text(&line, "name")?;
            let server = names::server(&text(&line, "server")?)?;
            let (name, has_lost) = given.tool(&server, &own_name)?;
            let schema = schemas::mended(line.get("input_schema").unwrap_or(&Value::Null));
            let mut tool = Map::new();
            tool.insert("name".to_owned(), json!(name.tool()));
            // Words that our tool names cannot contain are added to the title, so that the search still sees them.
            if has_lost {
                tool.insert("title".to_owned(), json!(own_name));
            }
            tool.insert("description".to_owned(), json!(text(&line, "description")?));
            tool.insert("inputSchema".to_owned(), schema);
            tool.extend(line.get("annotations").map(|hints| ("annotations".to_owned(), hints.clone())));
            tools.listed.entry(server).or_default().push(tool);
            anyhow::ensure!(tools.names.insert(id.clone(), name).is_none(), "`{id}` is in `{set}` twice");
        }
        Ok(tools)
    }

    fn catalog(&self) -> anyhow::Result<Catalog> {
        let offers: anyhow::Result<Vec<_>> =
            self.listed.iter().map(|(server, tools)| Ok((server.clone(), offer(server, tools)?))).collect();
        let catalog = Catalog::new(offers?);
        let missing = self.names.values().find(|name| catalog.resolve(name).is_none());
        missing.map_or(Ok(catalog), |name| Err(anyhow::anyhow!("`{name}` is not in the catalog")))
    }
}

/// Builds the offer of a server with these tools. Fails if a tool is not accepted.
pub(super) fn offer(server: &ServerName, tools: &[Map<String, Value>]) -> anyhow::Result<Arc<Offer>> {
    let json = |tool: &Map<String, Value>| serde_json::to_string(tool).unwrap_or_default();
    let (offer, refused) = Offer::new(tools.iter().map(|tool| Offered::parse(server, &json(tool))));
    if let Some((name, error)) = refused.first() {
        anyhow::bail!("`{server}:{}` is not in the catalog: {error}", name.escape_debug());
    }
    Ok(Arc::new(offer))
}

pub(super) fn query_texts(root: &Path, set: &str) -> anyhow::Result<Vec<String>> {
    lines(root, set, "queries.jsonl")?.iter().map(|line| text(line, "query")).collect()
}

fn lines(root: &Path, set: &str, file: &str) -> anyhow::Result<Vec<Value>> {
    let path = root.join(FOLDER).join(set).join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("could not read `{}`", path.display()))?;
    let parse = |(line, text): (usize, &str)| {
        serde_json::from_str(text).with_context(|| format!("line {line} of `{}`", path.display()))
    };
    (1..).zip(text.lines()).map(parse).collect()
}

fn text(line: &Value, field: &str) -> anyhow::Result<String> {
    let text = line.get(field).and_then(Value::as_str).with_context(|| format!("no `{field}` in a line"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_and_no_query_is_lost() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let check = |set: &str, tools: usize, queries: usize, groups: usize| {
            let read = Tools::read(root, set).unwrap();
            assert_eq!(read.catalog().unwrap().tools().count(), tools, "{set}");
            let lines = lines(root, set, "queries.jsonl").unwrap();
            let all: Vec<Query> = lines.iter().map(|line| Query::of(line, &read.names).unwrap()).collect();
            assert_eq!((all.len(), all.iter().map(|query| query.groups.len()).sum()), (queries, groups), "{set}");
        };
        check("toucan-mcp", 4791, 145, 145);
        check("livemcpbench", 527, 245, 339);
        check("bfcl", 1382, 597, 608);
        check("metatool", 199, 557, 655);
        check("sealtools", 4076, 515, 1099);
        check("stabletoolbench", 2479, 366, 851);
        check("mcpproxy-golden", 45, 25, 31);
    }

    #[test]
    fn a_label_that_leads_nowhere_is_an_error() {
        let names = HashMap::from([("a:x".to_owned(), ToolName::parse("a:x").unwrap())]);
        let check = |relevant: Value, is_fine: bool| {
            let line = json!({"id": "q", "query": "words", "relevant": relevant});
            assert_eq!(Query::of(&line, &names).is_ok(), is_fine, "{line}");
        };
        check(json!([["a:x"]]), true);
        check(json!([["a:x", "a:y"]]), false);
        check(json!([[]]), false);
        check(json!([]), false);
        check(json!(["a:x"]), false);
    }
}
