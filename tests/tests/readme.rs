//! What the README shows is what the repository holds.

use std::fs;
use std::path::Path;

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the checkout");
    fs::read_to_string(root.join(path)).expect("reads")
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let example = file("crates/callboard/examples/first.rs");
    let code = example.split_once("\n\n").expect("it has a head").1;
    assert!(file("README.md").contains(&format!("```rust\n{code}```\n")), "README.md shows another program");
}
