//! Commands of docs/moving.md, which are run as they stand there, with two changes: absolute
//! paths lie below a folder of the run, and Redis listens at a port of its own.

use std::collections::BTreeMap;
use std::path::Path;

/// Commands by the heading of their section, each with whether somebody asked for it.
pub(super) struct Commands(BTreeMap<String, Vec<(String, bool)>>);

impl Commands {
    pub(super) fn of_document() -> Self {
        Self::parse(include_str!("../../../docs/moving.md"))
    }

    fn parse(text: &str) -> Self {
        let mut commands = BTreeMap::<_, Vec<_>>::new();
        let (mut heading, mut block) = (String::new(), None);
        for line in text.lines() {
            match (block, line.strip_prefix("```")) {
                (None, Some(kind)) => block = Some(kind),
                (Some(_), Some(_)) => block = None,
                (Some("sh"), None) if !line.is_empty() => {
                    let of_section = commands.entry(heading.clone()).or_default();
                    of_section.push((line.to_owned(), false));
                }
                (Some(_), None) => {}
                (None, None) => {
                    if let Some(title) = line.strip_prefix('#') {
                        heading = title.trim_start_matches('#').trim().to_owned();
                    }
                }
            }
        }
        Self(commands)
    }

    /// Returns a command of a section by its number.
    pub(super) fn command(&mut self, heading: &str, number: usize) -> Option<&str> {
        let (command, is_taken) = self.0.get_mut(heading)?.get_mut(number)?;
        *is_taken = true;
        Some(command.as_str())
    }

    /// Returns the commands of sections on other systems that nobody asked for.
    pub(super) fn left(&self) -> Vec<&str> {
        let sections = self.0.iter().filter(|(title, _)| title.starts_with("From"));
        let commands = sections.flat_map(|(_, commands)| commands);
        let left = commands.filter(|(_, is_taken)| !is_taken);
        left.map(|(command, _)| command.as_str()).collect()
    }
}

/// Returns a command whose absolute paths lie below `root`, and whose Redis listens at this
/// port.
pub(super) fn below(command: &str, root: &Path, redis: Option<u16>) -> String {
    let word = |word: &str| match (word.starts_with('/'), redis) {
        (true, _) => format!("{}{word}", root.display()),
        (false, Some(port)) => word.replace("127.0.0.1:6379", &format!("127.0.0.1:{port}")),
        (false, None) => word.to_owned(),
    };
    let words: Vec<_> = command.split(' ').map(word).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_below_their_headings() {
        let text = "# In\n```sh\na\n\nb /x\n```\n## From X\n```ini\nno\n```\n```sh\n# c\nd\n```\n";
        let mut commands = Commands::parse(text);
        assert_eq!(commands.command("In", 1), Some("b /x"));
        assert_eq!(commands.command("In", 2), None);
        assert_eq!(commands.command("From X", 1), Some("d"));
        assert_eq!(commands.left(), ["# c"]);
    }

    #[test]
    fn the_document_has_a_command_for_each_system() {
        let commands = Commands::of_document();
        assert!(commands.left().len() >= 13, "{:?}", commands.left());
    }

    #[test]
    fn paths_and_ports_are_those_of_the_run() {
        let root = Path::new("/run");
        let tar = "tar -C /etc letsencrypt | sekisho cert import --layout certbot -";
        let expected = "tar -C /run/etc letsencrypt | sekisho cert import --layout certbot -";
        assert_eq!(below(tar, root, None), expected);
        let redis = "import redis://127.0.0.1:6379 ~/x";
        assert_eq!(
            below(redis, root, Some(7)),
            "import redis://127.0.0.1:7 ~/x"
        );
    }
}
