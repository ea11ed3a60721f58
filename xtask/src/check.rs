//! `check`: format, lints, documentation, and a compile gate for the platforms that are not run here.

use crate::shell;

/// The crates that others depend on.
pub const LIBRARIES: [&str; 4] = [
    "fencepost-lifetime",
    "fencepost-core",
    "fencepost",
    "fencepost-audit",
];

/// What the libraries must compile for, if its standard library is installed.
const PLATFORMS: [&str; 4] = [
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "aarch64-linux-android",
];

/// Runs everything; the error names each part that failed.
pub fn run() -> Result<(), String> {
    let mut failed = Vec::new();
    let mut part = |name: &str, command: &mut std::process::Command| {
        eprintln!("\n== {name}");
        if let Err(error) = shell::run(command) {
            eprintln!("{error}");
            failed.push(name.to_string());
        }
    };
    part("format", shell::cargo().args(["fmt", "--all", "--check"]));
    part(
        "lints",
        shell::cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    );
    let packages = || LIBRARIES.iter().flat_map(|name| ["--package", name]);
    part(
        "documentation",
        shell::cargo()
            .args(["doc", "--no-deps"])
            .args(packages())
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    let installed =
        shell::output(std::process::Command::new("rustup").args(["target", "list", "--installed"]));
    for platform in PLATFORMS {
        match &installed {
            None => eprintln!("\nskipped: compile gate for {platform}: there is no rustup to ask"),
            Some(list) if !list.lines().any(|line| line.trim() == platform) => eprintln!(
                "\nskipped: compile gate for {platform}: its standard library is not installed (rustup target add {platform})"
            ),
            Some(_) => part(
                &format!("compile gate for {platform}"),
                shell::cargo()
                    .args(["check", "--target", platform])
                    .args(packages()),
            ),
        }
    }
    if failed.is_empty() {
        eprintln!("\ncheck: everything passed");
        Ok(())
    } else {
        Err(format!("\ncheck: failed in {}", failed.join(", ")))
    }
}
