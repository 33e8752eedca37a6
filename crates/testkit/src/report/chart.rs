//! What all pictures share: the frame with its axes, marks, the legend, and the numbers for those who point at it.

use super::text::{count, escaped, moment, px};
use super::words::Word;
use std::fmt::Write;

/// Width of a picture, in units of its own; it grows and shrinks with the page.
const WIDTH: f64 = 1_040.0;
/// Left and right end of the plot. The same for all, so that one moment stands above the other.
pub(super) const LEFT: f64 = 132.0;
/// See [`LEFT`].
pub(super) const RIGHT: f64 = 986.0;
/// From the top to the plot.
pub(super) const TOP: f64 = 14.0;
/// Below the plot, for the axis of time.
const BELOW: f64 = 38.0;
/// Steps of an axis of time, in milliseconds.
const TIME_STEPS: [u64; 23] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    432_000_000,
];
/// Values that stand so many times above nearly all others are cut.
const CUT_RATIO: f64 = 4.0;
/// Marks on an axis of time, at most.
const TIME_MARKS_MAX: u64 = 11;

/// A stretch of virtual time, cut into equal bins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Its start, in milliseconds.
    pub(super) from_ms: u64,
    /// Its end; later than the start.
    pub(super) to_ms: u64,
    /// How many bins.
    pub(super) bins: usize,
}

impl Span {
    /// A span of at least a millisecond, and of at most one bin a millisecond.
    pub(super) fn new(from_ms: u64, to_ms: u64, bins_max: usize) -> Span {
        let to_ms = to_ms.max(from_ms.saturating_add(1));
        let length = usize::try_from(to_ms - from_ms).unwrap_or(usize::MAX).max(1);
        Span { from_ms: from_ms.min(to_ms - 1), to_ms, bins: bins_max.clamp(1, length) }
    }

    /// Its length, in milliseconds.
    pub(super) fn length_ms(&self) -> u64 {
        self.to_ms - self.from_ms
    }

    /// Length of a bin, in milliseconds.
    pub(super) fn bin_ms(&self) -> f64 {
        self.length_ms() as f64 / self.bins as f64
    }

    /// The bin of a moment; none outside. The last moment belongs to the last bin.
    pub(super) fn bin(&self, at_ms: u64) -> Option<usize> {
        (self.from_ms..=self.to_ms).contains(&at_ms).then(|| {
            let part = (at_ms - self.from_ms) as f64 / self.length_ms() as f64;
            ((part * self.bins as f64) as usize).min(self.bins - 1)
        })
    }

    /// Where a moment is, between 0 and 1 for those within.
    pub(super) fn part(&self, at_ms: u64) -> f64 {
        ((at_ms as f64 - self.from_ms as f64) / self.length_ms() as f64).clamp(0.0, 1.0)
    }
}

/// A picture over time while it is drawn.
pub(super) struct Chart {
    span: Span,
    height: f64,
    label: String,
    axes: String,
    marks: String,
    table: Option<String>,
}

impl Chart {
    /// A picture over time whose plot is so high. The label is for those who cannot see it.
    pub(super) fn new(span: Span, height: f64, label: &str) -> Chart {
        let mut chart = Chart::bare(span, height, label);
        chart.time_axis();
        chart
    }

    /// As [`Chart::new`], and what is drawn has to say what stands from left to right.
    pub(super) fn bare(span: Span, height: f64, label: &str) -> Chart {
        let (axes, marks) = (String::new(), String::new());
        Chart { span, height, label: escaped(label), axes, marks, table: None }
    }

    /// Where a moment is.
    pub(super) fn x(&self, at_ms: u64) -> f64 {
        LEFT + self.span.part(at_ms) * (RIGHT - LEFT)
    }

    /// Where a bin begins; the one after the last gives the right end.
    pub(super) fn bin_x(&self, bin: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * bin as f64 / self.span.bins as f64
    }

    /// Where a part of the height is: 0 at the bottom, 1 at the top.
    pub(super) fn y(&self, part: f64) -> f64 {
        TOP + self.height * (1.0 - part.clamp(0.0, 1.0))
    }

    fn time_axis(&mut self) {
        let length = self.span.length_ms();
        let fits = |step: &&u64| length / **step < TIME_MARKS_MAX;
        let longest = TIME_STEPS[TIME_STEPS.len() - 1];
        let step = TIME_STEPS
            .iter()
            .find(fits)
            .copied()
            .unwrap_or_else(|| (length / longest / TIME_MARKS_MAX + 1).saturating_mul(longest));
        let bottom = TOP + self.height;
        let mut at = self.span.from_ms.div_ceil(step).saturating_mul(step);
        while at <= self.span.to_ms {
            let x = px(self.x(at));
            self.axis(format_args!(
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{}\"/>\
                 <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(bottom + 4.0),
                px(bottom + 17.0),
                moment(at, step),
            ));
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        let unit = match (step, length) {
            (..1_000, ..60_000) => "virtual time, s",
            (_, ..3_600_000) => "virtual time, min:s",
            (_, ..86_400_000) => "virtual time, h:min:s",
            _ => "virtual time, days and h:min",
        };
        self.axis(format_args!(
            "<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{unit}</text>",
            px(RIGHT),
            px(bottom + 33.0),
        ));
    }

    /// An axis of counts from 0 to at least so many; gives its end.
    pub(super) fn count_axis(&mut self, unit: &str, most: f64) -> f64 {
        let (step, end) = count_steps(most);
        let mut at = 0.0;
        while at <= end + step / 2.0 {
            let text = if step < 1.0 { format!("{at:.1}") } else { count(at as u64) };
            self.level(at / end, &text);
            at += step;
        }
        self.unit(unit);
        end
    }

    /// An axis of counts for values of which a few stand far above all others, such as the calls of the last check:
    /// those are cut, and their height is written at the cut. Gives its end.
    pub(super) fn cut_axis(&mut self, unit: &str, values: &[f64]) -> f64 {
        let peak = values.iter().copied().enumerate().fold((0, 0.0), |most, value| match value.1 > most.1 {
            true => value,
            false => most,
        });
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get(sorted.len() * 97 / 100).copied().unwrap_or(0.0);
        if peak.1 <= usual * CUT_RATIO {
            return self.count_axis(unit, peak.1);
        }
        let end = self.count_axis(unit, usual * 1.25);
        let x = self.bin_x(peak.0);
        let (x, anchor) = if x > (LEFT + RIGHT) / 2.0 { (x - 5.0, "end") } else { (x + 8.0, "start") };
        self.axis(format_args!(
            "<text class=\"cut\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">↑ {}</text>",
            px(x),
            px(TOP - 4.0),
            count(peak.1.round() as u64),
        ));
        end
    }

    /// An axis of counts that ends at exactly so many, for parts of a whole.
    pub(super) fn whole_axis(&mut self, unit: &str, whole: usize) -> f64 {
        let end = whole.max(1) as f64;
        let (step, _) = count_steps(end);
        let mut at = 0.0;
        // The last step would run into the end.
        while at < end - step / 3.0 {
            self.level(at / end, &count(at as u64));
            at += step;
        }
        self.level(1.0, &count(whole as u64));
        self.unit(unit);
        end
    }

    /// An axis of milliseconds in powers of ten, from 1 to at least so many; gives the power at its end.
    pub(super) fn log_axis(&mut self, unit: &str, most_ms: u64) -> f64 {
        let decades = f64::from(most_ms.max(10).ilog10() + u32::from(!is_power_of_ten(most_ms.max(10))));
        for power in 0..=decades as u32 {
            self.level(f64::from(power) / decades, &power_words(10_u64.saturating_pow(power)));
        }
        self.unit(unit);
        decades
    }

    fn level(&mut self, part: f64, text: &str) {
        let y = self.y(part);
        self.axis(format_args!(
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{text}</text>",
            px(LEFT),
            px(RIGHT),
            px(LEFT - 7.0),
            px(y + 3.5),
            y = px(y),
        ));
    }

    fn unit(&mut self, unit: &str) {
        let middle = px(TOP + self.height / 2.0);
        self.axis(format_args!(
            "<text class=\"unit\" transform=\"translate(62 {middle}) rotate(-90)\" text-anchor=\"middle\">{unit}</text>",
        ));
    }

    /// Something beside the plot.
    pub(super) fn axis(&mut self, text: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let _ = self.axes.write_fmt(text);
    }

    /// Something in the plot.
    pub(super) fn mark(&mut self, text: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let _ = self.marks.write_fmt(text);
    }

    /// A stack of areas, one a word, over the bins; parts of the whole height.
    pub(super) fn stack(&mut self, words: &[Word], layers: &[Vec<f64>], whole: f64) {
        let mut below = vec![0.0; self.span.bins];
        for (word, layer) in words.iter().zip(layers) {
            if layer.iter().all(|value| *value <= 0.0) {
                continue;
            }
            let above: Vec<f64> = below.iter().zip(layer).map(|(below, value)| below + value).collect();
            let outline = self.steps(&above, whole) + &self.steps_back(&below, whole);
            self.mark(format_args!("<path class=\"{}\" d=\"{outline}z\"/>", word.class));
            below = above;
        }
    }

    /// An area from the ground up.
    pub(super) fn area(&mut self, class: &str, values: &[f64], whole: f64) {
        let ground = vec![0.0; values.len()];
        let outline = self.steps(values, whole) + &self.steps_back(&ground, whole);
        self.mark(format_args!("<path class=\"{class}\" d=\"{outline}z\"/>"));
    }

    /// A line in steps.
    pub(super) fn line(&mut self, class: &str, values: &[f64], whole: f64) {
        let outline = self.steps(values, whole);
        self.mark(format_args!("<path class=\"{class}\" d=\"{outline}\"/>"));
    }

    /// The steps of the values from left to right. Equal neighbours are one step.
    fn steps(&self, values: &[f64], whole: f64) -> String {
        let mut path = String::new();
        let mut last = None;
        for (bin, value) in values.iter().enumerate() {
            let y = px(self.y(value / whole));
            if last.as_ref() != Some(&y) {
                // A String takes everything.
                let _ = match bin {
                    0 => write!(path, "M{} {y}", px(self.bin_x(0))),
                    _ => write!(path, "H{}V{y}", px(self.bin_x(bin))),
                };
                last = Some(y);
            }
        }
        path + &format!("H{}", px(self.bin_x(values.len())))
    }

    /// The steps from right to left, continuing a path.
    fn steps_back(&self, values: &[f64], whole: f64) -> String {
        let mut path = String::new();
        let mut last = None;
        for (bin, value) in values.iter().enumerate().rev() {
            let y = px(self.y(value / whole));
            if last.as_ref() != Some(&y) {
                // A String takes everything.
                let _ = write!(path, "H{}V{y}", px(self.bin_x(bin + 1)));
                last = Some(y);
            }
        }
        path + &format!("H{}", px(self.bin_x(0)))
    }

    /// Numbers that a pointer reads: a name, a unit and a value a bin, for each series. Null is nothing.
    pub(super) fn readable(&mut self, series: &[(&str, &str, &[Option<f64>])]) {
        let columns: Vec<serde_json::Value> = series
            .iter()
            .map(|(name, unit, values)| {
                let values: Vec<serde_json::Value> = values.iter().map(|value| short(*value)).collect();
                serde_json::json!({ "n": name, "u": unit, "v": values })
            })
            .collect();
        let text = serde_json::Value::Array(columns).to_string();
        self.table = Some(text.replace('<', "\\u003c"));
    }

    /// The picture, as a figure with what stands above it.
    pub(super) fn figure(self, legend: &str) -> String {
        let (height, span) = (self.height + TOP + BELOW, self.span);
        let mut text = format!(
            "<figure>{legend}<div class=\"scroll\"><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {h}\" role=\"img\" \
             aria-label=\"{label}\" data-t0=\"{from}\" data-t1=\"{to}\" data-top=\"{TOP}\" data-h=\"{plot}\">\
             <g class=\"axes\">{axes}</g><g class=\"marks\">{marks}</g></svg></div>",
            h = px(height),
            plot = px(self.height),
            label = self.label,
            from = span.from_ms,
            to = span.to_ms,
            axes = self.axes,
            marks = self.marks,
        );
        if let Some(table) = self.table {
            // A String takes everything.
            let _ = write!(text, "<script type=\"application/json\">{table}</script>");
        }
        text.push_str("</figure>\n");
        text
    }
}

/// A number of few digits.
fn short(value: Option<f64>) -> serde_json::Value {
    match value.filter(|value| value.is_finite()) {
        None => serde_json::Value::Null,
        Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => (value as i64).into(),
        Some(value) => ((value * 10.0).round() / 10.0).into(),
    }
}

/// The step of an axis of counts and its end, a whole number of steps.
fn count_steps(most: f64) -> (f64, f64) {
    let most = if most.is_finite() { most.max(1.0) } else { 1.0 };
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors.iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough);
    let step = step.max(1.0);
    (step, (most / step).ceil() * step)
}

/// A power of ten in the unit that makes it a plain number.
fn power_words(ms: u64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        _ => format!("{} s", count(ms / 1_000)),
    }
}

fn is_power_of_ten(number: u64) -> bool {
    10_u64.checked_pow(number.ilog10()) == Some(number)
}

/// What the colours of a picture mean. Each key is a class and its words, with what they mean.
pub(super) fn legend(keys: &[Word]) -> String {
    let mut text = String::from("<ul class=\"legend\">");
    for key in keys {
        // A String takes everything.
        let _ = write!(
            text,
            "<li title=\"{}\"><i class=\"key {}\"></i>{}</li>",
            escaped(key.meaning),
            key.class,
            escaped(key.word)
        );
    }
    text + "</ul>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_a_span_and_nothing_else() {
        let span = Span::new(100, 200, 10);
        assert_eq!(
            [99, 100, 109, 110, 199, 200, 201].map(|at| span.bin(at)),
            [None, Some(0), Some(0), Some(1), Some(9), Some(9), None]
        );
        assert_eq!(Span::new(5, 5, 100).bins, 1);
        assert_eq!(Span::new(u64::MAX, 0, 100).length_ms(), 1);
    }

    #[test]
    fn a_peak_far_above_the_rest_is_cut_and_written() {
        let mut values = vec![10.0; 100];
        values[40] = 2_000.0;
        let mut chart = Chart::new(Span::new(0, 100, 100), 100.0, "x");
        assert!(chart.cut_axis("x", &values) < 20.0);
        assert!(chart.figure("").contains("↑ 2,000<"));
        values[40] = 30.0;
        let mut chart = Chart::new(Span::new(0, 100, 100), 100.0, "x");
        assert!(chart.cut_axis("x", &values) >= 30.0);
        assert!(!chart.figure("").contains('↑'));
        let mut chart = Chart::new(Span::new(0, 100, 100), 100.0, "x");
        assert!(chart.cut_axis("x", &[]) >= 1.0);
    }

    #[test]
    fn axes_end_at_round_numbers_above_the_most() {
        for (most, step, end) in
            [(0.0, 1.0, 1.0), (3.0, 1.0, 3.0), (9_800.0, 5_000.0, 10_000.0), (41.0, 20.0, 60.0)]
        {
            assert_eq!(count_steps(most), (step, end), "{most}");
        }
    }
}
