//! Turns each keyword into a condition, as its draft of JSON Schema defines it.

use serde_json::{Number, Value};

use super::SchemaError;
use super::build::{GraphBuilder, SchemaPosition};
use super::condition::{
    ArrayCondition, BranchCondition, Condition, CountLimit, NumberBound, ObjectCondition, Properties, Types,
    ValueCondition,
};
use super::draft::Draft;
use super::equal::decimal;
use super::keyword_check::CompiledKeyword;

static ANYTHING: Value = Value::Bool(true);

impl<'v> GraphBuilder<'v> {
    pub(super) fn conditions(&mut self, here: SchemaPosition<'v>) -> Result<Vec<Condition>, SchemaError> {
        let reference = self.refer(here, "$ref");
        self.tolerate(reference)?;
        let mut conditions = Vec::new();
        if here.schema.contains_key("$ref") && self.draft.reference_stands_alone() {
            return Ok(conditions);
        }
        for (keyword, value) in here.schema {
            let condition = self.condition(here, keyword, value);
            conditions.extend(self.tolerate(condition)?.flatten());
        }
        Ok(conditions)
    }

    fn condition(
        &mut self,
        here: SchemaPosition<'v>,
        keyword: &'v str,
        value: &'v Value,
    ) -> Result<Option<Condition>, SchemaError> {
        Ok(match keyword {
            "type" => Some(ValueCondition::Type(self.types(here, value)?).into()),
            "enum" => {
                if !value.is_array() {
                    return Err(self.mistake(here.node, keyword, "an array of values"));
                }
                Some(ValueCondition::Enum(self.exact.copy_of(value)).into())
            }
            "const" if self.draft >= Draft::Six => Some(ValueCondition::Const(self.exact.copy_of(value)).into()),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                self.number_condition(here, keyword, value)?
            }
            "minLength" => Some(ValueCondition::Length(CountLimit::Least, self.count(here, keyword, value)?).into()),
            "maxLength" => Some(ValueCondition::Length(CountLimit::Most, self.count(here, keyword, value)?).into()),
            "minItems" => Some(ArrayCondition::Count(CountLimit::Least, self.count(here, keyword, value)?).into()),
            "maxItems" => Some(ArrayCondition::Count(CountLimit::Most, self.count(here, keyword, value)?).into()),
            "minProperties" => {
                Some(ObjectCondition::Count(CountLimit::Least, self.count(here, keyword, value)?).into())
            }
            "maxProperties" => Some(ObjectCondition::Count(CountLimit::Most, self.count(here, keyword, value)?).into()),
            "pattern" => {
                let text = self.text(here, keyword, value)?;
                self.count_pattern(text)?;
                Some(ValueCondition::Pattern(CompiledKeyword::new(text)).into())
            }
            "format" => {
                let text = self.text(here, keyword, value)?;
                self.count_pattern(text)?;
                Some(ValueCondition::Format(CompiledKeyword::new(text)).into())
            }
            "uniqueItems" => {
                let is_on = value.as_bool().ok_or_else(|| self.mistake(here.node, keyword, "true or false"))?;
                is_on.then_some(ArrayCondition::Unique.into())
            }
            "required" => Some(ObjectCondition::Required(self.names(here, keyword, value)?).into()),
            _ => self.applicator(here, keyword, value)?,
        })
    }

    /// Reads keywords that contain schemas.
    fn applicator(
        &mut self,
        here: SchemaPosition<'v>,
        keyword: &'v str,
        value: &'v Value,
    ) -> Result<Option<Condition>, SchemaError> {
        let (draft, has) = (self.draft, |other: &str| here.schema.contains_key(other));
        Ok(match keyword {
            "allOf" => Some(BranchCondition::All(self.list(here, keyword, value)?).into()),
            "anyOf" => Some(BranchCondition::Any(self.list(here, keyword, value)?).into()),
            "oneOf" => Some(BranchCondition::One(self.list(here, keyword, value)?).into()),
            "not" => Some(BranchCondition::Not(self.sub(here, keyword, value)?).into()),
            "if" if draft >= Draft::Seven => Some(
                BranchCondition::If {
                    test: self.sub(here, keyword, value)?,
                    then: self.sub_of(here, "then")?,
                    otherwise: self.sub_of(here, "else")?,
                }
                .into(),
            ),
            "properties" => Some(self.properties(here)?),
            "patternProperties" if !has("properties") => Some(self.properties(here)?),
            "additionalProperties" if !has("properties") && !has("patternProperties") => Some(self.properties(here)?),
            "propertyNames" if draft >= Draft::Six => {
                Some(ObjectCondition::Names(self.sub(here, keyword, value)?).into())
            }
            "items" | "prefixItems" => self.items(here, keyword)?,
            "contains" if draft >= Draft::Six => Some(self.contains(here, value)?),
            "dependencies" => Some(self.dependencies(here, value)?),
            "dependentRequired" if draft >= Draft::Year2019 => Some(self.dependent_required(here, value)?),
            "dependentSchemas" if draft >= Draft::Year2019 => {
                let subs = self.map(here, keyword, value)?;
                Some(
                    ObjectCondition::DependentSchemas(
                        subs.into_iter().map(|(name, node)| (name.into(), node)).collect(),
                    )
                    .into(),
                )
            }
            "unevaluatedItems" if draft >= Draft::Year2019 => {
                Some(ArrayCondition::Unevaluated(self.sub(here, keyword, value)?).into())
            }
            "unevaluatedProperties" if draft >= Draft::Year2019 => {
                Some(ObjectCondition::Unevaluated(self.sub(here, keyword, value)?).into())
            }
            // Unused definitions are read, too: they count towards the limits, and their mistakes are errors.
            "$defs" | "definitions" => {
                self.map(here, keyword, value)?;
                None
            }
            "$dynamicRef" if draft >= Draft::Year2020 => {
                self.refer(here, "$dynamicRef")?;
                None
            }
            "$recursiveRef" if draft == Draft::Year2019 => {
                self.refer(here, "$recursiveRef")?;
                None
            }
            _ => {
                self.doubt(here, keyword)?;
                None
            }
        })
    }

    fn properties(&mut self, here: SchemaPosition<'v>) -> Result<Condition, SchemaError> {
        let mut properties = Properties::default();
        if let Some(value) = here.schema.get("properties") {
            let subs = self.map(here, "properties", value);
            let subs = self.tolerate(subs)?.unwrap_or_default();
            properties.named = subs.into_iter().map(|(name, node)| (name.into(), node)).collect();
        }
        if let Some(value) = here.schema.get("patternProperties") {
            let subs = self.map(here, "patternProperties", value);
            for (pattern, node) in self.tolerate(subs)?.unwrap_or_default() {
                self.count_pattern(pattern)?;
                properties.patterns.push((CompiledKeyword::new(pattern), node));
            }
        }
        properties.rest = self.sub_of(here, "additionalProperties")?;
        properties.index();
        Ok(ObjectCondition::Properties(Box::new(properties)).into())
    }

    /// Reads `prefixItems` and `items`. Before draft 2020-12, `items` could be an array, which is accepted in every
    /// draft.
    fn items(&mut self, here: SchemaPosition<'v>, keyword: &str) -> Result<Option<Condition>, SchemaError> {
        let prefix = here.schema.get("prefixItems").filter(|_| self.draft >= Draft::Year2020);
        let items = here.schema.get("items");
        if keyword == "prefixItems" && (prefix.is_none() || items.is_some()) {
            return Ok(None);
        }
        let (first, rest) = match (prefix, items) {
            (Some(prefix), _) => {
                let first = self.list(here, "prefixItems", prefix);
                (self.tolerate(first)?.unwrap_or_default(), self.sub_of(here, "items")?)
            }
            (None, Some(Value::Array(items))) if items.is_empty() => {
                (Vec::new(), self.sub_of(here, "additionalItems")?)
            }
            (None, Some(list @ Value::Array(_))) => {
                (self.list(here, "items", list)?, self.sub_of(here, "additionalItems")?)
            }
            (None, _) => (Vec::new(), self.sub_of(here, "items")?),
        };
        Ok(Some(ArrayCondition::Items { first, rest }.into()))
    }

    fn contains(&mut self, here: SchemaPosition<'v>, value: &'v Value) -> Result<Condition, SchemaError> {
        let node = self.sub(here, "contains", value)?;
        let limit = |keyword: &str| match here.schema.get(keyword).filter(|_| self.draft >= Draft::Year2019) {
            None => Ok(None),
            Some(value) => self.count(here, keyword, value).map(Some),
        };
        let (min, max) = (limit("minContains")?.unwrap_or(1), limit("maxContains")?);
        Ok(ArrayCondition::Contains { node, min, max }.into())
    }

    /// Reads `dependencies`, which contains property names and schemas.
    fn dependencies(&mut self, here: SchemaPosition<'v>, value: &'v Value) -> Result<Condition, SchemaError> {
        let members =
            value.as_object().ok_or_else(|| self.mistake(here.node, "dependencies", "an object of dependencies"))?;
        let mut subs = Vec::new();
        for (name, needed) in members {
            let step = format!("dependencies/{}", name.replace('~', "~0").replace('/', "~1"));
            if needed.is_array() {
                let names = self.names(here, &step, needed);
                let names = self.tolerate(names)?.unwrap_or_default();
                let node = self.sub(here, &step, &ANYTHING)?;
                if let Some(node) = self.nodes.get_mut(node as usize) {
                    node.conditions.push(ObjectCondition::Required(names).into());
                }
                subs.push((name.as_str().into(), node));
            } else {
                subs.push((name.as_str().into(), self.sub(here, &step, needed)?));
            }
        }
        Ok(ObjectCondition::DependentSchemas(subs).into())
    }

    fn dependent_required(&mut self, here: SchemaPosition<'v>, value: &'v Value) -> Result<Condition, SchemaError> {
        let keyword = "dependentRequired";
        let members = value.as_object().ok_or_else(|| self.mistake(here.node, keyword, "an object of dependencies"))?;
        let needs = members.iter().map(|(name, needed)| Ok((name.as_str().into(), self.names(here, keyword, needed)?)));
        needs.collect::<Result<_, _>>().map(|needs| ObjectCondition::DependentRequired(needs).into())
    }

    fn types(&self, here: SchemaPosition<'v>, value: &Value) -> Result<Types, SchemaError> {
        let words = match value {
            Value::Array(words) => words.iter().map(Value::as_str).collect::<Option<Vec<_>>>().unwrap_or_default(),
            value => value.as_str().into_iter().collect(),
        };
        let types = words.iter().try_fold(Types::default(), |types, word| types.with(word));
        let types = types.map(|types| if self.draft == Draft::Four { types.literal() } else { types });
        types
            .filter(|_| !words.is_empty())
            .ok_or_else(|| self.mistake(here.node, "type", "a JSON type or an array of them"))
    }

    /// Reads a bound on numbers. Before draft 6, `exclusiveMinimum` was a boolean next to `minimum`.
    fn number_condition(
        &self,
        here: SchemaPosition<'v>,
        keyword: &str,
        value: &Value,
    ) -> Result<Option<Condition>, SchemaError> {
        if keyword.starts_with("exclusive") && value.is_boolean() {
            return Ok(None);
        }
        let Value::Number(number) = value else { return Err(self.mistake(here.node, keyword, "a number")) };
        let is_exclusive = |switch: &str| here.schema.get(switch) == Some(&Value::Bool(true));
        let bound = match keyword {
            "minimum" if is_exclusive("exclusiveMinimum") => NumberBound::Above,
            "minimum" => NumberBound::Least,
            "maximum" if is_exclusive("exclusiveMaximum") => NumberBound::Below,
            "maximum" => NumberBound::Most,
            "exclusiveMinimum" => NumberBound::Above,
            "exclusiveMaximum" => NumberBound::Below,
            _ => {
                let divisor = self.exact.copy_of(value);
                if !decimal(self.exact.whole().part(value), number).is_some_and(|divisor| divisor.is_divisor()) {
                    return Err(self.mistake(here.node, keyword, "a number greater than 0 with at most 19 digits"));
                }
                return Ok(Some(ValueCondition::MultipleOf(divisor).into()));
            }
        };
        Ok(Some(ValueCondition::Bound(bound, self.exact.copy_of(value)).into()))
    }

    fn count(&self, here: SchemaPosition<'v>, keyword: &str, value: &Value) -> Result<u64, SchemaError> {
        let count = |number: &Number| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a non-negative integer")]
            let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
            number.as_u64().or_else(|| number.as_f64().and_then(whole))
        };
        value.as_number().and_then(count).ok_or_else(|| self.mistake(here.node, keyword, "a non-negative integer"))
    }

    fn text(&self, here: SchemaPosition<'v>, keyword: &str, value: &'v Value) -> Result<&'v str, SchemaError> {
        value.as_str().ok_or_else(|| self.mistake(here.node, keyword, "a string"))
    }

    fn names(&self, here: SchemaPosition<'v>, keyword: &str, value: &Value) -> Result<Vec<Box<str>>, SchemaError> {
        let names = value.as_array().map(|names| names.iter().map(|name| name.as_str().map(Box::from)));
        names.and_then(Iterator::collect).ok_or_else(|| self.mistake(here.node, keyword, "an array of property names"))
    }
}
