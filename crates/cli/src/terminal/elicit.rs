//! Questions of a server, asked on the terminal (protocol: `client/elicitation`).

use super::ask::{can_ask, read_line};
use super::form::{Field, Form};
use crate::output::{Screen, Tone, printable};
use crate::schema::plain;
use callboard::{BoxFuture, ElicitAnswer, ElicitRequest, ElicitWhat, Elicitation};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A field is asked so often before the form counts as cancelled.
const TRIES_MAX: usize = 5;

/// Asks one question after the other, whoever asks.
pub(crate) struct TerminalElicitation {
    desk: Arc<Desk>,
}

struct Desk {
    screen: Arc<Screen>,
    turn: Mutex<()>,
}

/// What a person typed at a prompt.
enum Typed {
    Text(String),
    Decline,
    Cancel,
}

impl TerminalElicitation {
    /// Questions go to this screen's stderr, answers come from stdin.
    pub(crate) fn new(screen: &Arc<Screen>) -> TerminalElicitation {
        TerminalElicitation { desk: Arc::new(Desk { screen: screen.clone(), turn: Mutex::new(()) }) }
    }
}

impl Elicitation for TerminalElicitation {
    fn elicit(&self, request: ElicitRequest) -> BoxFuture<'static, ElicitAnswer> {
        let desk = self.desk.clone();
        Box::pin(async move {
            let _turn = desk.turn.lock().await;
            desk.answer(&request).await
        })
    }

    fn offers_url(&self) -> bool {
        can_ask()
    }
}

impl Desk {
    async fn answer(&self, request: &ElicitRequest) -> ElicitAnswer {
        let message = printable(&request.message);
        if !can_ask() {
            self.screen.note(&format!("the server {} asks: {message}", request.server));
            self.screen.note("hint: nobody can answer here; run the command at a terminal");
            return ElicitAnswer::Cancel;
        }
        // A bar that moves would write over what is typed.
        let bar = self.screen.take_bar();
        let server = self.screen.paint_note(Tone::Head, request.server.as_str());
        self.screen.note(&format!("\n{server} asks: {message}"));
        let answer = match &request.what {
            ElicitWhat::Form { schema } => self.fill_in(&Form::read(schema.get())).await,
            ElicitWhat::Url { url, .. } => self.visit(url).await,
        };
        self.screen.set_bar(bar);
        self.screen.show_bar();
        answer
    }

    async fn fill_in(&self, form: &Form) -> ElicitAnswer {
        let help = "(Enter takes the default; !decline says no, !cancel or Ctrl-D says nothing)";
        self.screen.note(&self.screen.paint_note(Tone::Dim, help));
        let mut answers = Vec::new();
        for field in &form.fields {
            match self.ask_field(form, field).await {
                Ok(Some(value)) => answers.push((field.name.clone(), value)),
                Ok(None) => {}
                Err(end) => return end,
            }
        }
        match self.prompt("Send this? [Y/n] ").await {
            Typed::Text(text) if is_no(&text) => ElicitAnswer::Decline,
            Typed::Text(_) => {
                ElicitAnswer::Accept(serde_json::value::to_raw_value(&Form::content(answers)).ok())
            }
            Typed::Decline => ElicitAnswer::Decline,
            Typed::Cancel => ElicitAnswer::Cancel,
        }
    }

    async fn ask_field(&self, form: &Form, field: &Field) -> Result<Option<Value>, ElicitAnswer> {
        if !field.description.is_empty() {
            self.screen.note(&self.screen.paint_note(Tone::Dim, &field.description));
        }
        for (at, (value, title)) in field.choices.iter().enumerate() {
            let value = plain(value);
            let value = if value == *title { String::new() } else { format!(" ({})", printable(&value)) };
            self.screen.note(&format!("  {}. {}{value}", at + 1, printable(title)));
        }
        let prompt = prompt_of(field);
        for _ in 0..TRIES_MAX {
            let text = match self.prompt(&prompt).await {
                Typed::Text(text) => text,
                Typed::Decline => return Err(ElicitAnswer::Decline),
                Typed::Cancel => return Err(ElicitAnswer::Cancel),
            };
            match form.answer(field, &text) {
                Ok(value) => return Ok(value),
                Err(problem) => self.screen.note(&self.screen.paint_note(Tone::Bad, &problem)),
            }
        }
        Err(ElicitAnswer::Cancel)
    }

    async fn visit(&self, url: &str) -> ElicitAnswer {
        let host = url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
        self.screen.note("It wants you to open this address in a browser:");
        self.screen.note(&format!("  {}", self.screen.paint_note(Tone::Accent, &printable(url))));
        if let Some(host) = host {
            self.screen.note(&format!("Nothing was fetched from it. The host is {}.", printable(&host)));
        }
        match self.prompt("Have you opened it, and agree? [y/N] ").await {
            Typed::Text(text) if is_yes(&text) => ElicitAnswer::Accept(None),
            Typed::Text(_) | Typed::Decline => ElicitAnswer::Decline,
            Typed::Cancel => ElicitAnswer::Cancel,
        }
    }

    async fn prompt(&self, prompt: &str) -> Typed {
        self.screen.prompt(prompt);
        match read_line().await {
            None => Typed::Cancel,
            Some(line) => match line.trim() {
                "!decline" => Typed::Decline,
                "!cancel" => Typed::Cancel,
                _ => Typed::Text(line),
            },
        }
    }
}

fn prompt_of(field: &Field) -> String {
    let kind = if field.choices.is_empty() { format!(" ({})", field.kind) } else { String::new() };
    let many = if field.many { " (several: 1,2)" } else { "" };
    let default = field
        .default
        .as_ref()
        .map(|default| format!(" [{}]", printable(&plain(default))))
        .unwrap_or_default();
    let required = if field.required { " *" } else { "" };
    format!("{}{}{many}{required}{default}: ", printable(&field.title), printable(&kind))
}

fn is_yes(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn is_no(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "n" | "no")
}
