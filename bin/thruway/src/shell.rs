//! Completions for shells and manual pages, made from the declaration of a command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use clap_complete::generate;

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// GNU bash, with its package bash-completion
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

/// Commands that describe the program itself.
#[derive(Debug, Subcommand)]
pub enum ShellCommand {
    /// Print completions of this program for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages of this program and of each command
    Man {
        /// Directory of the pages, created if missing: /usr/share/man/man1
        dir: PathBuf,
    },
}

impl ShellCommand {
    /// Runs the command for a program.
    ///
    /// # Errors
    /// The pages cannot be written.
    pub fn run(self, mut program: clap::Command) -> anyhow::Result<ExitCode> {
        match self {
            ShellCommand::Completions { shell } => out!("{}", completions(&mut program, shell)),
            ShellCommand::Man { dir } => {
                let name = || dir.display().to_string();
                fs::create_dir_all(&dir).with_context(name)?;
                let written = manual(program, &dir).with_context(name)?;
                outln!("{written} pages in {}", dir.display());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The completions of a program for a shell.
fn completions(program: &mut clap::Command, shell: Shell) -> String {
    use clap_complete::Shell::{Bash, Fish, Zsh};
    let name = program.get_name().to_owned();
    match shell {
        // clap_complete 4.6 writes labels of two kinds where a name has a hyphen, and then
        // completes nothing behind a command. Only the last lines are to have the name itself.
        Shell::Bash => {
            let plain = name.replace('-', "_");
            let end = format!(" {plain}\n");
            script(Bash, program, &plain).replace(&end, &format!(" {name}\n"))
        }
        Shell::Zsh => script(Zsh, program, &name),
        Shell::Fish => script(Fish, program, &name),
    }
}

/// What clap makes for a shell, for a program of this name.
fn script(shell: clap_complete::Shell, program: &mut clap::Command, name: &str) -> String {
    let mut script = Vec::new();
    generate(shell, program, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the manual pages of a program; returns their number.
fn manual(program: clap::Command, dir: &Path) -> std::io::Result<usize> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    pages(&program, dir)
}

/// Writes the page of a command and those of its commands.
fn pages(command: &clap::Command, dir: &Path) -> std::io::Result<usize> {
    clap_mangen::Man::new(command.clone()).generate_to(dir)?;
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    let below: std::io::Result<usize> = shown.map(|one| pages(one, dir)).sum();
    Ok(1 + below?)
}
