//! The `callboard` command.
