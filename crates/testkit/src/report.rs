//! What a run looked like: a page for people, a document for machines, and the sums behind both.

mod calls;
mod chart;
mod fleet;
mod json;
mod load;
mod outages;
mod page;
mod rows;
mod storm;
mod summary;
mod text;
mod words;

#[cfg(test)]
mod tests;

pub use json::json;
pub use page::html;
pub use summary::{OutcomeSummary, ServerSummary, Storm, Summary, summary};
pub use text::{duration, percent};
