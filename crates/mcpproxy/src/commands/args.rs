//! Arguments that several commands share.

use clap::ValueEnum;
use mcpproxy_core::Variant;

/// A variant of `call_tool_*`, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VariantArg {
    Read,
    Write,
    Destructive,
}

impl From<VariantArg> for Variant {
    fn from(variant: VariantArg) -> Self {
        match variant {
            VariantArg::Read => Self::Read,
            VariantArg::Write => Self::Write,
            VariantArg::Destructive => Self::Destructive,
        }
    }
}
