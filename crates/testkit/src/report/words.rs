//! The words of a recording that have a colour, in the order in which they are drawn.

/// A word of the recording and what it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// As it stands in the recording.
    pub(super) word: &'static str,
    /// The class of its marks in the style sheet.
    pub(super) class: &'static str,
    /// What it means, for those who point at it.
    pub(super) meaning: &'static str,
}

const fn word(word: &'static str, class: &'static str, meaning: &'static str) -> Word {
    Word { word, class, meaning }
}

/// The states of a server, from the best of a stack to what nobody asks for; the last one stands for words that are
/// in no table.
pub(super) const STATES: [Word; 10] = [
    word("connected", "s0", "calls go through"),
    word("handshaking", "s1", "the link is open, the first answers are awaited"),
    word("dialing", "s2", "a link is being opened"),
    word("queued", "s3", "waits for its turn to be dialed"),
    word("backing-off", "s4", "waits before the next attempt"),
    word("needs-auth", "s5", "waits for credentials"),
    word("failed", "s6", "given up, until somebody asks or the slow retry comes"),
    word("disabled", "s7", "switched off"),
    word("dormant", "s8", "nobody has asked for it"),
    word("other", "s9", "a state this page does not know"),
];

/// The place of a state in [`STATES`].
pub(super) fn state(word: &str) -> usize {
    STATES.iter().position(|known| known.word == word).unwrap_or(STATES.len() - 1)
}

/// States in which a server has been wanted and cannot be had, which is trouble however short.
pub(super) fn is_trouble(state: usize) -> bool {
    matches!(STATES[state].word, "backing-off" | "needs-auth" | "failed")
}

/// States in which a call would have to wait or fail though somebody wants the server.
pub(super) fn is_away(state: usize) -> bool {
    is_trouble(state) || matches!(STATES[state].word, "handshaking" | "dialing" | "queued")
}

/// How a call may end; the last one stands for words that are in no table.
pub(super) const OUTCOMES: [Word; 9] = [
    word("ok", "o0", "answered"),
    word("remote-error", "o1", "the server answered with an error"),
    word("timed-out", "o2", "no answer within its limit"),
    word("lost-unsent", "o3", "the link ended before it was sent: not performed"),
    word("lost-unknown", "o4", "the link ended after it was sent: nobody knows"),
    word("not-connected", "o5", "there was no server within its limit"),
    word("queue-full", "o6", "too many were waiting"),
    word("cancelled", "o7", "given up by its caller"),
    word("other", "o8", "an end this page does not know"),
];

/// The place of an outcome in [`OUTCOMES`].
pub(super) fn outcome(word: &str) -> usize {
    OUTCOMES.iter().position(|known| known.word == word).unwrap_or(OUTCOMES.len() - 1)
}
