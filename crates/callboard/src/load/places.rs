//! Which files are looked at, nearest first (behaviour profile §8.1, S6, §8.3).

use super::{Dialect, LoadOptions, Place, STANDARD_INPUT};
use callboard_policy::Scope;
use std::path::{Component, Path, PathBuf};

/// The file of a project.
const PROJECT_FILE: &str = ".mcp.json";
/// What a repository's root holds, as a file or folder.
const REPOSITORY_MARKS: [&str; 3] = [".git", ".jj", ".hg"];

/// The files to read, in order of precedence; none of them is known to exist yet.
pub(crate) fn places(options: &LoadOptions) -> Vec<Place> {
    let place =
        |scope: Scope| move |path: PathBuf| Place { path, scope, dialect: Dialect::Generic, found: false };
    let cwd = logical(&options.cwd);
    if !options.config_files.is_empty() {
        let files = options.config_files.iter();
        let path =
            |file: &PathBuf| if file.as_os_str() == STANDARD_INPUT { file.clone() } else { cwd.join(file) };
        return files.map(path).map(place(Scope::Dynamic)).collect();
    }
    let project = chain(&cwd).into_iter().map(|folder| folder.join(PROJECT_FILE)).map(place(Scope::Project));
    let user = user_folder(options).into_iter().flat_map(|folder| {
        ["callboard.toml", "mcp.json"].map(|name| folder.join(name)).map(place(Scope::User))
    });
    project.chain(user).collect()
}

/// The root of the repository that `cwd` is in, else `cwd` itself.
pub(super) fn project_folder(cwd: &Path) -> PathBuf {
    let mut folders = chain(&logical(cwd));
    folders.pop().unwrap_or_default()
}

/// The folders from `cwd` up to the root of its repository; `cwd` alone outside of one.
fn chain(cwd: &Path) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = cwd.ancestors().map(Path::to_owned).collect();
    let root = folders.iter().position(|folder| is_repository_root(folder)).unwrap_or(0);
    folders.into_iter().take(root + 1).collect()
}

fn is_repository_root(folder: &Path) -> bool {
    REPOSITORY_MARKS.iter().any(|mark| folder.join(mark).symlink_metadata().is_ok())
}

/// `${XDG_CONFIG_HOME:-~/.config}/callboard`. A relative variable does not count, as its specification says.
fn user_folder(options: &LoadOptions) -> Option<PathBuf> {
    let named = options.env.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = named.or_else(|| options.home.as_ref().map(|home| home.join(".config")))?;
    Some(folder.join("callboard"))
}

/// An absolute path without `.` and `..`, found without asking the file system: the logical path counts.
fn logical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut logical = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(logical.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => logical.push(component),
        }
    }
    logical
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logical_path_counts() {
        for (path, expected) in [("/a/b/../c/./d", "/a/c/d"), ("/..", "/"), ("/a/", "/a")] {
            assert_eq!(logical(Path::new(path)), Path::new(expected));
        }
        assert!(logical(Path::new("a")).is_absolute());
    }
}
