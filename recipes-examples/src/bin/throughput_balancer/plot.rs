//! Plots what each member applied as bands, one above the other, over time: plain text, for terminals and files.

use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{HorizontalAlignment, Rect};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};

/// The columns of the plot, one for each moment; with its time stamp, a line has 96 characters.
pub(crate) const COLUMNS: u16 = 80;
/// The rows from zero to the maximum.
const ROWS: u16 = 24;
/// The labels of the y axis divide the rows evenly.
const STEPS: u64 = 4;

/// What one member applied in each column.
pub(crate) struct Band {
    pub(crate) letter: char,
    pub(crate) applied: Vec<u64>,
}

/// Plots the bands, the first one at the bottom, under a line at the maximum.
pub(crate) fn plot(bands: &[Band], maximum: u64, duration: Duration) -> String {
    let row = maximum as f64 / f64::from(ROWS);
    // The line has a row of its own, above a full column.
    let line: Vec<_> = (0..COLUMNS).map(|column| (f64::from(column), maximum as f64 + row)).collect();
    let tops = tops(bands);
    // A lower band is drawn over the higher ones.
    let bars = bands.iter().zip(&tops).rev().map(|(band, top)| dataset(GraphType::Bar, band.letter, top));
    let datasets = std::iter::once(dataset(GraphType::Line, '-', &line)).chain(bars).collect();
    let y_labels: Vec<_> = (0..=STEPS).map(|step| (maximum * step / STEPS).to_string()).collect();
    let label_width = y_labels.iter().map(String::len).max().unwrap_or_default() as u16;
    let x_labels = (0..=2).map(|half| format!("{:.1} s", duration.as_secs_f64() * f64::from(half) / 2.0));
    let chart = Chart::new(datasets)
        .x_axis(
            Axis::default()
                .bounds([0.0, f64::from(COLUMNS - 1)])
                .labels(x_labels)
                .labels_alignment(HorizontalAlignment::Right),
        )
        .y_axis(
            Axis::default()
                .bounds([row, maximum as f64 + row])
                .labels(y_labels)
                .labels_alignment(HorizontalAlignment::Right),
        );
    // Besides the bands: the labels and the y axis, the row of the maximum, the x axis and its labels.
    text(&chart, label_width + 1 + COLUMNS, ROWS + 3)
}

/// Returns the top of each band: the sum of it and all bands below it.
fn tops(bands: &[Band]) -> Vec<Vec<(f64, f64)>> {
    let mut sums = vec![0; usize::from(COLUMNS)];
    let mut tops = Vec::new();
    for band in bands {
        sums.iter_mut().zip(&band.applied).for_each(|(sum, applied)| *sum += applied);
        tops.push(sums.iter().enumerate().map(|(column, sum)| (column as f64, *sum as f64)).collect());
    }
    tops
}

fn dataset(graph_type: GraphType, letter: char, points: &[(f64, f64)]) -> Dataset<'_> {
    Dataset::default().graph_type(graph_type).marker(Marker::Custom(letter)).data(points)
}

/// Renders a widget as text, without colours and terminal control.
fn text(widget: impl Widget, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    widget.render(area, &mut buffer);
    let lines = buffer.content().chunks(usize::from(width)).map(|row| row.iter().map(Cell::symbol).collect::<String>());
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_band_is_as_high_as_what_it_applies() {
        let full = usize::from(COLUMNS);
        let bands =
            [('a', 200), ('b', 100), ('c', 0)].map(|(letter, share)| Band { letter, applied: vec![share; full] });
        let plot = plot(&bands, 400, Duration::from_secs(4));
        let rows = |text: &str| plot.lines().filter(|line| line.contains(&text.repeat(full))).count();
        assert_eq!((rows("-"), rows(" "), rows("a"), rows("b"), rows("c")), (1, 0, 12, 6, 0), "{plot}");
        assert!(plot.starts_with(&format!("400│{}\n", "-".repeat(full))), "{plot}");
        assert!(plot.lines().all(|line| line.chars().count() <= 90), "{plot}");
    }
}
