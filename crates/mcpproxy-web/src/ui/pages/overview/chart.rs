//! The chart of calls over time, as SVG that we draw, with a table as its text alternative.
//!
//! The SVG has no text: it is stretched to the width of the page, and text would be stretched with it. Labels are HTML
//! around it. They name ages ("12 hours ago") and not times, so that they are right in every time zone.

use mcpproxy_core::Variant;
use mcpproxy_store::HourlyCount;

use crate::ui::pages::amount::{counted, grouped};
use crate::ui::pages::labels::Time;

const HOUR_MS: i64 = 3_600_000;
/// The drawing area. One bar takes ten units of the width.
const BAR: u64 = 10;
const GAP: u64 = 2;
const HEIGHT: u64 = 100;

/// The time that the page covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    Day,
    Week,
}

impl Period {
    pub(crate) fn of(days: Option<&str>) -> Self {
        if days == Some("7") { Self::Week } else { Self::Day }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Day => "the last 24 hours",
            Self::Week => "the last 7 days",
        }
    }

    fn hours_per_bar(self) -> i64 {
        match self {
            Self::Day => 1,
            Self::Week => 6,
        }
    }

    fn bars(self) -> i64 {
        match self {
            Self::Day => 24,
            Self::Week => 28,
        }
    }

    /// Returns the first millisecond of the period. It ends with the hour of now.
    pub(crate) fn since_ms(self, now_ms: i64) -> i64 {
        (now_ms / HOUR_MS + 1 - self.bars() * self.hours_per_bar()) * HOUR_MS
    }

    fn ages(self) -> [&'static str; 3] {
        match self {
            Self::Day => ["24 hours ago", "12 hours ago", "now"],
            Self::Week => ["7 days ago", "3½ days ago", "now"],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) width: u64,
    pub(crate) bars: Vec<Bar>,
    /// The value at the top of the chart.
    pub(crate) top: String,
    pub(crate) unit: &'static str,
    pub(crate) ages: [&'static str; 3],
    /// Says what the chart shows.
    pub(crate) sentence: String,
    pub(crate) rows: Vec<ChartRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// The position of the bar and of the area that shows its title.
    pub(crate) x: u64,
    pub(crate) title: String,
    pub(crate) parts: Vec<BarPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BarPart {
    pub(crate) class: &'static str,
    pub(crate) y: u64,
    pub(crate) height: u64,
}

/// A row of the table: a bar with at least one call.
#[derive(Clone, Debug)]
pub(crate) struct ChartRow {
    pub(crate) time: Time,
    pub(crate) counts: [String; 3],
}

impl Chart {
    pub(crate) fn new(hours: &[HourlyCount], period: Period, now_ms: i64) -> Self {
        let (since_ms, bar_ms) = (period.since_ms(now_ms), period.hours_per_bar() * HOUR_MS);
        let mut counts = vec![[0_u64; 3]; usize::try_from(period.bars()).unwrap_or(0)];
        for hour in hours {
            let at = usize::try_from((hour.from_ms - since_ms).div_euclid(bar_ms)).ok();
            let part = Variant::ALL.iter().position(|variant| *variant == hour.intent);
            if let (Some(bar), Some(part)) = (at.and_then(|at| counts.get_mut(at)), part)
                && let Some(count) = bar.get_mut(part)
            {
                *count += hour.calls;
            }
        }
        let most = counts.iter().map(|bar| bar.iter().sum::<u64>()).max().unwrap_or(0);
        let top = round_up(most);
        let starts = (0..).map(|number: i64| since_ms + number * bar_ms);
        let bars = counts.iter().zip((0..).map(|number| number * BAR)).zip(starts.clone());
        let used = counts.iter().zip(starts).filter(|(bar, _)| bar.iter().any(|count| *count > 0));
        let row =
            |(bar, from_ms): (&[u64; 3], i64)| ChartRow { time: Time::new(from_ms, now_ms), counts: bar.map(grouped) };
        let mut rows: Vec<ChartRow> = used.map(row).collect();
        rows.reverse();
        Self {
            width: period.bars().unsigned_abs() * BAR - GAP,
            bars: bars.map(|((bar, x), from_ms)| Bar::new(*bar, x, top, Time::new(from_ms, now_ms))).collect(),
            top: grouped(top),
            unit: match (period, top) {
                (Period::Day, 1) => "call per hour",
                (Period::Day, _) => "calls per hour",
                (Period::Week, 1) => "call per 6 hours",
                (Period::Week, _) => "calls per 6 hours",
            },
            ages: period.ages(),
            sentence: sentence(&counts, period),
            rows,
        }
    }
}

impl Bar {
    fn new(counts: [u64; 3], x: u64, top: u64, time: Time) -> Self {
        let classes = ["fill-read", "fill-write", "fill-destructive"];
        let mut below = 0;
        let mut parts = Vec::new();
        for (count, class) in counts.into_iter().zip(classes) {
            // A single call among thousands must stay visible.
            let height = count.saturating_mul(HEIGHT).div_ceil(top.max(1)).min(HEIGHT - below);
            if height > 0 {
                below += height;
                parts.push(BarPart { class, y: HEIGHT - below, height });
            }
        }
        let [read, write, destructive] = counts.map(grouped);
        let title = format!("From {}: {read} read, {write} write, {destructive} destructive", time.clock);
        Self { x, title, parts }
    }
}

fn sentence(counts: &[[u64; 3]], period: Period) -> String {
    let sum = |part: usize| counts.iter().filter_map(|bar| bar.get(part)).sum::<u64>();
    let [read, write, destructive] = [0, 1, 2].map(sum);
    let total = read + write + destructive;
    if total == 0 {
        return format!("No calls in {}.", period.words());
    }
    let [read, write, destructive] = [read, write, destructive].map(grouped);
    let calls = counted(total, "call");
    format!("{calls} in {}: {read} read, {write} write, {destructive} destructive.", period.words())
}

/// Returns the top of the chart: the next number of the form 1, 2 or 5 times a power of ten.
fn round_up(most: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        if let Some(top) = [1, 2, 5].map(|digit| power.saturating_mul(digit)).into_iter().find(|top| *top >= most) {
            return top;
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn hour(ago: i64, intent: Variant, calls: u64) -> HourlyCount {
        HourlyCount { from_ms: (NOW_MS / HOUR_MS - ago) * HOUR_MS, intent, calls, failed: 0 }
    }

    #[test]
    fn hours_become_bars() {
        let hours = [hour(0, Variant::Read, 3), hour(0, Variant::Destructive, 1), hour(23, Variant::Write, 4)];
        let chart = Chart::new(&hours, Period::Day, NOW_MS);
        assert_eq!((chart.bars.len(), chart.width, chart.top.as_str()), (24, 238, "5"));
        let parts: Vec<usize> = chart.bars.iter().map(|bar| bar.parts.len()).collect();
        assert_eq!((parts[0], parts[22], parts[23]), (1, 0, 2));
        let expected = [
            BarPart { class: "fill-read", y: 40, height: 60 },
            BarPart { class: "fill-destructive", y: 20, height: 20 },
        ];
        assert_eq!(chart.bars[23].parts, expected);
        assert_eq!(chart.sentence, "8 calls in the last 24 hours: 3 read, 4 write, 1 destructive.");
        assert_eq!(chart.rows.len(), 2);
        assert_eq!(chart.rows[0].counts, ["3", "0", "1"], "the newest comes first");
        assert!(chart.bars[23].title.ends_with("3 read, 0 write, 1 destructive"), "{}", chart.bars[23].title);
    }

    #[test]
    fn a_week_has_bars_of_six_hours() {
        let hours = [
            hour(0, Variant::Read, 1),
            hour(5, Variant::Read, 1),
            hour(6, Variant::Read, 1),
            hour(167, Variant::Read, 9),
        ];
        let chart = Chart::new(&hours, Period::Week, NOW_MS);
        assert_eq!(chart.bars.len(), 28);
        let counts: Vec<&str> = chart.rows.iter().map(|row| row.counts[0].as_str()).collect();
        assert_eq!(counts, ["2", "1", "9"]);
    }

    #[test]
    fn nothing_and_much() {
        let chart = Chart::new(&[], Period::Day, NOW_MS);
        assert_eq!((chart.sentence.as_str(), chart.rows.len()), ("No calls in the last 24 hours.", 0));
        // Times outside of the period are left out.
        let chart = Chart::new(&[hour(24, Variant::Read, 1), hour(-1, Variant::Read, 1)], Period::Day, NOW_MS);
        assert_eq!(chart.rows.len(), 0);
        let chart = Chart::new(&[hour(0, Variant::Read, 9_999), hour(0, Variant::Write, 1)], Period::Day, NOW_MS);
        let heights: u64 = chart.bars[23].parts.iter().map(|part| part.height).sum();
        assert!(heights <= HEIGHT, "{heights}");
        assert_eq!([0, 1, 3, 11, 50, 501].map(round_up), [1, 1, 5, 20, 50, 1_000]);
    }
}
