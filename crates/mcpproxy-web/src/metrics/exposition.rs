//! Writes the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

use mcpproxy_core::meter::HistogramReading;

/// The text under construction. A sample belongs to the family that was begun last.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) {
        self.begin(name, "gauge", help);
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &str) {
        self.begin(name, "counter", help);
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &str) {
        self.begin(name, "histogram", help);
    }

    fn begin(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        // Writing to a `String` cannot fail.
        let _written = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    pub(super) fn observations(&mut self, labels: &[(&str, &str)], reading: &HistogramReading) {
        for (bound, count) in &reading.buckets {
            self.line("_bucket", labels, Some(&bound.to_string()), count);
        }
        self.line("_bucket", labels, Some("+Inf"), reading.count);
        self.line("_sum", labels, None, reading.sum_seconds);
        self.line("_count", labels, None, reading.count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: impl Display) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        let bound = bound.map(|bound| ("le", bound));
        for (index, (name, label)) in labels.iter().copied().chain(bound).enumerate() {
            self.text.push_str(if index == 0 { "{" } else { "," });
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.push_escaped(label);
            self.text.push('"');
        }
        if !labels.is_empty() || bound.is_some() {
            self.text.push('}');
        }
        let _written = writeln!(self.text, " {value}");
    }

    fn push_escaped(&mut self, label: &str) {
        for character in label.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcpproxy_core::meter::Histogram;

    use super::*;

    #[test]
    fn lines() {
        let mut out = Exposition::default();
        out.gauge("a", "First.");
        out.sample(&[], 1);
        out.counter("b_total", "Second.");
        out.sample(&[("x", "y"), ("z", "a\"b\\c\nd")], 2);
        let expected = "# HELP a First.\n# TYPE a gauge\na 1\n# HELP b_total Second.\n# TYPE b_total counter\n\
                        b_total{x=\"y\",z=\"a\\\"b\\\\c\\nd\"} 2\n";
        assert_eq!(out.finish(), expected);
    }

    #[test]
    fn a_histogram_ends_with_infinity() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_secs(2));
        histogram.observe(Duration::from_secs(100));
        let mut out = Exposition::default();
        out.histogram("h", "Times.");
        out.observations(&[("s", "t")], &histogram.read());
        let text = out.finish();
        let end =
            "h_bucket{s=\"t\",le=\"60\"} 1\nh_bucket{s=\"t\",le=\"+Inf\"} 2\nh_sum{s=\"t\"} 102\nh_count{s=\"t\"} 2\n";
        assert!(text.contains("h_bucket{s=\"t\",le=\"0.00005\"} 0\n") && text.ends_with(end), "{text}");
    }
}
