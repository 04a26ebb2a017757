//! The five levels of risk.

/// The harm that a tool can do, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RiskLevel {
    Low,
    Medium,
    High,
    Critical,
    Forbidden,
}

impl RiskLevel {
    pub const ALL: [Self; 5] = [Self::Low, Self::Medium, Self::High, Self::Critical, Self::Forbidden];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
            Self::Forbidden => "forbidden",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}
