//! A board follows its files, and only when they can be followed.

use callboard::Board;
use callboard::load::LoadOptions;
use callboard::reload::{Reloaded, Reloader};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ONE: &str = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;

fn write(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("servers.json");
    std::fs::write(&path, text).expect("writes");
    path
}

fn options(file: PathBuf) -> LoadOptions {
    LoadOptions { cwd: "/nowhere".into(), config_files: vec![file], ..LoadOptions::default() }
}

async fn board_of(reloader: &Reloader) -> Board {
    Board::builder().servers(reloader.loaded().entries.clone()).build().await.expect("a board")
}

async fn reload(reloader: &mut Reloader, board: &Board) -> Reloaded {
    reloader.reload(board, |loaded| loaded.entries.clone()).await
}

fn names(board: &Board) -> Vec<String> {
    board.servers().iter().map(|server| server.name().to_string()).collect()
}

#[tokio::test]
async fn a_change_is_applied_and_a_fault_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut reloader = Reloader::new(options(write(folder.path(), ONE)));
    let board = board_of(&reloader).await;
    assert_eq!(reload(&mut reloader, &board).await, Reloaded::Same);
    for (text, line, code) in [
        ("{\"mcpServers\": {\n\"a\": {\"command\": \"a\"\n", Some(2), "file-invalid"),
        ("{\"mcpServers\": {\n\"a\": {}}}", Some(2), "missing-command-or-url"),
    ] {
        write(folder.path(), text);
        let Reloaded::Kept { problems } = reload(&mut reloader, &board).await else {
            panic!("applied {text}")
        };
        assert_eq!((problems.len(), problems[0].code), (1, code), "{problems:?}");
        assert!(problems[0].line >= line && !problems[0].hint.is_empty(), "{problems:?}");
        assert_eq!(names(&board), ["a", "b"]);
    }
    write(folder.path(), r#"{"mcpServers": {"a": {"command": "a"}, "c": {"command": "c"}}}"#);
    let Reloaded::Applied { applied, settings_wait } = reload(&mut reloader, &board).await else {
        panic!("not applied")
    };
    assert_eq!((applied.unchanged.len(), applied.added.len(), applied.removed.len()), (1, 1, 1));
    assert!(!settings_wait);
    assert_eq!(names(&board), ["a", "c"]);
    board.close().await;
}

#[tokio::test]
async fn a_fault_that_was_there_from_the_start_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut reloader =
        Reloader::new(options(write(folder.path(), r#"{"mcpServers": {"bad": {}, "a": {"command": "a"}}}"#)));
    let board = board_of(&reloader).await;
    write(folder.path(), "{\"mcpServers\": {\n\n\"b\": {\"command\": \"b\"}, \"bad\": {}}}");
    assert!(matches!(reload(&mut reloader, &board).await, Reloaded::Applied { .. }));
    assert_eq!(names(&board), ["b"]);
    board.close().await;
}

#[tokio::test]
async fn a_file_that_is_gone_for_a_moment_takes_no_server_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), ONE);
    let mut reloader = Reloader::new(options(file.clone()));
    let board = board_of(&reloader).await;
    std::fs::remove_file(&file).expect("removes");
    assert!(matches!(reload(&mut reloader, &board).await, Reloaded::Kept { .. }));
    assert_eq!(names(&board), ["a", "b"]);
    board.close().await;
}

#[tokio::test]
async fn a_file_that_was_replaced_or_has_come_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(".mcp.json");
    let options = LoadOptions { cwd: folder.path().into(), ..LoadOptions::default() };
    let mut reloader = Reloader::new(options.clone());
    std::fs::write(&file, ONE).expect("writes");
    let bound = Duration::from_secs(20);
    tokio::time::timeout(bound, reloader.changed()).await.expect("notices a file that has come");
    let mut reloader = Reloader::new(options);
    let next = folder.path().join("next");
    std::fs::write(&next, ONE.replace('b', "c")).expect("writes");
    std::fs::rename(&next, &file).expect("moves");
    tokio::time::timeout(bound, reloader.changed()).await.expect("notices a file that was replaced");
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), ONE);
    let mut reloader = Reloader::new(options(file.clone()));
    let board = board_of(&reloader).await;
    std::fs::remove_file(&file).expect("removes");
    let made = std::process::Command::new("mkfifo").arg(&file).status().expect("runs");
    assert!(made.success());
    let bound = Duration::from_secs(20);
    let reloaded = tokio::time::timeout(bound, reload(&mut reloader, &board)).await.expect("does not wait");
    let Reloaded::Kept { problems } = reloaded else { panic!("{reloaded:?}") };
    assert_eq!(problems[0].message, "the file is a pipe, which cannot be read again");
    std::fs::remove_file(&file).expect("removes");
    write(folder.path(), r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    assert!(matches!(reload(&mut reloader, &board).await, Reloaded::Applied { .. }));
    assert_eq!(names(&board), ["a"]);
    board.close().await;
}

#[tokio::test]
async fn a_file_that_is_empty_for_a_moment_takes_no_server_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), ONE);
    let mut reloader = Reloader::new(options(file));
    let board = board_of(&reloader).await;
    write(folder.path(), " \n");
    let Reloaded::Kept { problems } = reload(&mut reloader, &board).await else { panic!("taken over") };
    assert_eq!(problems[0].message, "the file is empty and had servers before");
    assert_eq!(names(&board), ["a", "b"]);
    write(folder.path(), "{}");
    assert!(matches!(reload(&mut reloader, &board).await, Reloaded::Applied { .. }));
    assert_eq!(names(&board), Vec::<String>::new());
    board.close().await;
}
