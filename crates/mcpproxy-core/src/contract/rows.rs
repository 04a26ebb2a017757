//! The macro behind the list of contract fields in `fields.rs`.
//!
//! A field of a contract appears in many places. Operators write it and servers send it. The gateway merges both, shows
//! the result, hashes it and publishes a JSON Schema for editors. `contract_fields!` generates all of these from one
//! row, so that they cannot drift apart. A row that leaves something out does not compile.
//!
//! From the rows it generates:
//!
//! | item | purpose |
//! |---|---|
//! | [`Contract`](super::Contract) | the contract as written: every field is an `Option<Written<T>>` |
//! | [`Effective`](super::Effective) | the contract as enforced, and `Effective::of`, which merges |
//! | `KEYS` | the known keys, with suggestions for common wrong names |
//! | `FIELDS` | key and kind of each field, in order |
//! | `Contract::read`, `Contract::positions` | reading, and the position of each field in its file |
//! | `Effective::fields`, `Effective::digest_fields` | each value as JSON, to show and to hash |
//! | `Effective::weaker_fields`, `Contract::mixed` | which fields a change weakens, and a contract without them |
//! | `properties` | the properties of the published JSON Schema |
//!
//! The rows say how a field is merged, but the functions that do it are in `effective.rs`. They decide what an operator
//! or a server may change, so they must be readable without this macro.
//!
//! Why not a table of function pointers beside hand-written structs? The structs would be a second list, and nothing
//! would notice a field that is in the struct but not in the table.

/// Generates the structs and functions of the module docs from rows such as this one:
///
/// ```text
/// rate_limit: RateLimit {
///     key: "rateLimit", also: [],
///     about: "Limits the number of calls in a time span, for all agents together.",
///     schema: json!({ "$ref": "#/$defs/rateLimit" }),
///     read: rate_limit::read,
///     merge: first(),
///     json: rate_limit::to_json,
///     digest: "rateLimit" => rate_limit::to_json,
///     weaker: weaker::rate_limit,
///     calls_only: true,
/// }
/// ```
///
/// `also` lists common wrong names. `merge` is one of
///
/// - `first()`: the operator's value, else the server's, else none;
/// - `first_or(default)`: the same, with a default;
/// - `optional(function)` and `always(function)`: a function of `effective.rs`.
///
/// `digest` is the name of the value in the hash, which must never change, and how it is written there. `weaker` is a
/// function of the merged value before and after a change. It returns true if the change may allow more. `calls_only` is
/// true for a field that means nothing on a forbidden tool, because it is about calls.
macro_rules! contract_fields {
    ($(
        $name:ident: $type:ty {
            key: $key:literal, also: [$($alias:literal),*],
            about: $about:literal,
            schema: $schema:expr,
            read: $read:expr,
            merge: $merge:ident($($how:expr)?),
            json: $json:expr,
            digest: $digest_key:literal => $digest:expr,
            weaker: $weaker:expr,
            calls_only: $calls_only:literal,
        }
    )*) => {
        /// A contract as an operator or a server wrote it. [`Effective`] decides what applies where a field is missing.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Contract {
            /// The file of an operator's contract; `None` for a server's.
            pub file: Option<Arc<str>>,
            /// True if the file is still marked as a draft.
            pub is_draft: bool,
            $(#[doc = $about] pub $name: Option<Written<$type>>,)*
        }

        /// The contract that is enforced for one tool, with the source of every field.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Effective {
            $(#[doc = $about] pub $name: merged_type!($merge, $type),)*
            /// True if the operator or the server wrote a contract.
            pub is_written: bool,
            /// True if the operator wrote a contract.
            pub is_operators: bool,
            /// The operation that a contract declares. Settings can turn a contradiction with the server's hints into a
            /// warning, but never one with this.
            pub written_operation: Option<Variant>,
        }

        /// The keys of a contract.
        pub(crate) const KEYS: Keys = Keys {
            known: &["$schema", "tool", $($key),*],
            advice: &[
                ("name", "did you mean `tool`?"),
                ("server", "did you mean `tool`? It contains both names, as in `mail:send`"),
                ("readOnlyHint", "did you mean `operation: read`?"),
                ("destructiveHint", "did you mean `operation: destructive`?"),
                $($(($alias, concat!("did you mean `", $key, "`?")),)*)*
            ],
        };

        /// Every field, in the order in which contracts are shown and drafted.
        pub(crate) const FIELDS: &[ContractField] =
            &[$(ContractField { key: $key, calls_only: $calls_only }),*];

        impl Contract {
            /// Reads the fields of a contract. `file` is `None` for a server's.
            pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>, file: Option<Arc<str>>) -> Self {
                Self { file, is_draft: false, $($name: written(reader, fields, $key, $read),)* }
            }

            /// The fields that the contract has, each with its position in the file.
            pub(crate) fn positions(&self) -> Vec<(ContractField, SourcePosition)> {
                let positions = [$(self.$name.as_ref().map(Written::position)),*];
                FIELDS.iter().zip(positions).filter_map(|(field, position)| Some((*field, position?))).collect()
            }

            /// Takes the fields for which `is_held` is true from `old`, and all others from `new`.
            pub(crate) fn mixed(old: Option<&Self>, new: Option<&Self>, is_held: impl Fn(&str) -> bool) -> Self {
                let of = |key: &str| if is_held(key) { old } else { new };
                let place = old.or(new);
                Self {
                    file: place.and_then(|one| one.file.clone()),
                    is_draft: place.is_some_and(|one| one.is_draft),
                    $($name: of($key).and_then(|one| one.$name.clone()),)*
                }
            }
        }

        impl Effective {
            /// Merges the contracts of a tool. `operator` has the operator's contracts, the most specific first.
            pub fn of(operator: &[&Arc<Contract>], server: Option<&Contract>, hints: Hints) -> Self {
                let sources = Sources::new(operator, server, hints);
                Self {
                    $($name: merged!($merge, sources, $name $(, $how)?),)*
                    is_written: !operator.is_empty() || server.is_some(),
                    is_operators: !operator.is_empty(),
                    written_operation: sources.first(|one| one.operation.as_ref()).map(|written| written.value),
                }
            }

            /// Key, value and source of each field that has a value.
            pub fn fields(&self) -> Vec<(&'static str, Value, &Source)> {
                let mut fields = Vec::new();
                $(if let Some((value, source)) = self.$name.shown() {
                    let json: fn(&$type) -> Value = $json;
                    fields.push(($key, json(value), source));
                })*
                fields
            }

            /// The keys of the fields that may allow more in `after` than here.
            pub(crate) fn weaker_fields(&self, after: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $({
                    let is_weaker: fn(Option<&$type>, Option<&$type>) -> bool = $weaker;
                    if is_weaker(self.$name.value(), after.$name.value()) {
                        keys.push($key);
                    }
                })*
                keys
            }

            /// Each value as it is hashed, under its name in the digest.
            pub(super) fn digest_fields(&self) -> Map<String, Value> {
                let mut fields = Map::new();
                $({
                    let digest: fn(&$type) -> Value = $digest;
                    fields.insert($digest_key.to_owned(), self.$name.value().map_or(Value::Null, digest));
                })*
                fields
            }
        }

        /// The properties of the published JSON Schema, by key.
        pub(super) fn properties() -> Map<String, Value> {
            let mut properties = Map::new();
            $({
                let mut schema: Value = $schema;
                if let Some(schema) = schema.as_object_mut() {
                    schema.insert("description".to_owned(), $about.into());
                }
                properties.insert($key.to_owned(), schema);
            })*
            properties
        }
    };
}

/// The type of a field in `Effective`.
macro_rules! merged_type {
    (first, $type:ty) => { Option<Sourced<$type>> };
    (optional, $type:ty) => { Option<Sourced<$type>> };
    (first_or, $type:ty) => { Sourced<$type> };
    (always, $type:ty) => { Sourced<$type> };
}

/// The value of a field in `Effective`.
macro_rules! merged {
    (first, $sources:ident, $name:ident) => {
        $sources.first(|one| one.$name.as_ref())
    };
    (first_or, $sources:ident, $name:ident, $default:expr) => {
        $sources.first(|one| one.$name.as_ref()).unwrap_or_else(|| by_default($default))
    };
    (optional, $sources:ident, $name:ident, $function:expr) => {
        $function(&$sources)
    };
    (always, $sources:ident, $name:ident, $function:expr) => {
        $function(&$sources)
    };
}

pub(super) use {contract_fields, merged, merged_type};
