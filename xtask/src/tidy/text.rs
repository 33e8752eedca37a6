//! Rules for every text file: no paths of somebody's machine.

use super::Finding;

/// Folders that only a certain machine has. Put together here so that this file does not name them.
const MACHINE: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
/// People that do not exist, for examples.
const MADE_UP: [&str; 5] = ["u/", "me/", "user/", "you/", "someone/"];

/// Every line that holds a path of a machine.
pub(super) fn check(place: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let wrong = lines.filter_map(|(at, line)| Some((at, machine_path(line)?)));
    wrong
        .map(|(at, path)| {
            Finding::fails(format!("{place}:{}", at + 1), format!("{path} is a path of a machine"))
        })
        .collect()
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE.into_iter().find(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let rest = &line[at + folder.len()..];
            starts_a_path(&line[..at]) && !is_made_up(rest)
        })
    })
}

/// A path begins here: what stands before is no part of one.
fn starts_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-~/}$)*".contains(c))
}

fn is_made_up(rest: &str) -> bool {
    let is_cut_off = |name: &str| {
        rest.starts_with(name.trim_end_matches('/')) && {
            let after = rest[name.len() - 1..].chars().next();
            !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
        }
    };
    MADE_UP.into_iter().any(is_cut_off)
        || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let [home, root, work, users] = MACHINE;
        for line in [
            format!("see {home}joe/src"),
            format!("\"{root}.cargo/bin\""),
            format!("cd {work}tree"),
            format!("PATH={users}joe/bin"),
            format!("`{home}user2/x`"),
        ] {
            assert_eq!(check("a.md", &format!("ok\n{line}\n")).len(), 1, "{line}");
        }
    }

    #[test]
    fn other_paths_are_left_alone() {
        let [home, root, work, _] = MACHINE;
        for line in [
            format!("{home}u/.demo"),
            format!("{home}user"),
            format!("https://example.com{work}order"),
            format!("target{root}a"),
            format!("the folder {home} itself"),
            "/usr/bin/env".to_owned(),
        ] {
            assert_eq!(check("a.md", &line), [], "{line}");
        }
    }
}
