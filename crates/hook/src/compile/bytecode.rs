//! Reader of Luau's bytecode, version 9: which globals, members and methods a script
//! names, and where.
//!
//! The layout is that of `loadsafe` in Luau's `lvmload.cpp`. A script whose bytecode
//! has another layout is not refused: its unknown names are errors when they are met.

use std::collections::BTreeSet;

/// Names in a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Names that are read or called, in the order of the code.
    pub(crate) used: Vec<Used>,
    /// Globals that the script sets.
    pub(crate) globals: BTreeSet<String>,
    /// Fields that the script sets, in any table.
    pub(crate) fields: BTreeSet<String>,
}

/// Use of a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) line: u32,
    pub(crate) name: Name,
}

/// Name that a script uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `name`.
    Global(String),
    /// `name.member`.
    Member(String, String),
    /// `something:name(…)`.
    Method(String),
}

impl Names {
    /// Reads bytecode; none if its layout is another one.
    pub(crate) fn read(bytecode: &[u8]) -> Option<Self> {
        let mut input = Input(bytecode);
        if input.byte()? != VERSION || input.byte()? != TYPES {
            return None;
        }
        let strings = input.list(|input| {
            let length = input.number()?;
            let text = input.bytes(length)?;
            Some(String::from_utf8_lossy(text).into_owned())
        })?;
        while input.byte()? != 0 {
            input.number()?;
        }
        let mut names = Self::default();
        for _ in 0..input.number()? {
            names.function(&mut input, &strings)?;
        }
        input.number()?;
        input.0.is_empty().then_some(names)
    }

    fn function(&mut self, input: &mut Input<'_>, strings: &[String]) -> Option<()> {
        // Registers, parameters, upvalues, varargs and flags.
        input.bytes(5)?;
        let types = input.number()?;
        input.bytes(types)?;
        let code = input.list(Input::word)?;
        let constants = input.list(|input| input.constant(strings))?;
        input.list(Input::number)?;
        // The line of the definition and the name.
        input.number()?;
        input.number()?;
        let lines = input.lines(code.len())?;
        if input.byte()? != 0 {
            input.list(|input| {
                // Name, begin and end.
                for _ in 0..3 {
                    input.number()?;
                }
                input.byte()
            })?;
            input.list(Input::number)?;
        }
        for constant in &constants {
            if let Constant::Table(keys) = constant {
                let keys = keys.iter().filter_map(|key| text(&constants, *key));
                self.fields.extend(keys);
            }
        }
        self.code(&code, &constants, &lines)
    }

    fn code(&mut self, code: &[u32], constants: &[Constant], lines: &[u32]) -> Option<()> {
        let mut at = 0;
        while at < code.len() {
            let operation = code[at].to_le_bytes()[0];
            let line = lines.get(at).copied().unwrap_or(0);
            let has_word = LONG.contains(&operation);
            let word = if has_word { *code.get(at + 1)? } else { 0 };
            at += 1 + usize::from(has_word);
            let index = usize::try_from(word).ok()?;
            let name = match operation {
                GETGLOBAL => Name::Global(text(constants, index)?),
                NAMECALL => Name::Method(text(constants, index)?),
                GETIMPORT => import(word, constants)?,
                SETGLOBAL => {
                    self.globals.insert(text(constants, index)?);
                    continue;
                }
                SETTABLEKS => {
                    self.fields.insert(text(constants, index)?);
                    continue;
                }
                _ => continue,
            };
            self.used.push(Used { line, name });
        }
        Some(())
    }
}

/// Reads a path of one to three names: two bits tell how many, ten each are indices.
fn import(word: u32, constants: &[Constant]) -> Option<Name> {
    let part = |shift: u32| text(constants, usize::try_from((word >> shift) & 1023).ok()?);
    match word >> 30 {
        1 => Some(Name::Global(part(20)?)),
        _ => Some(Name::Member(part(20)?, part(10)?)),
    }
}

fn text(constants: &[Constant], index: usize) -> Option<String> {
    match constants.get(index)? {
        Constant::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// Constant of a function, as far as it names something.
enum Constant {
    Text(String),
    /// Template of a table: the indices of its keys.
    Table(Vec<usize>),
    Other,
}

/// Bytes that are left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (read, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(read)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// Reads a number in groups of seven bits, the lowest first.
    fn number(&mut self) -> Option<usize> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn constant(&mut self, strings: &[String]) -> Option<Constant> {
        let skipped = match self.byte()? {
            0 => 0,
            1 => 1,
            2 => 8,
            3 => {
                let index = self.number()?.checked_sub(1)?;
                return Some(Constant::Text(strings.get(index)?.clone()));
            }
            4 => 4,
            5 => return Some(Constant::Table(self.list(Self::number)?)),
            6 => {
                self.number()?;
                0
            }
            7 => 16,
            8 => {
                let key = |input: &mut Self| {
                    let key = input.number()?;
                    input.word()?;
                    Some(key)
                };
                return Some(Constant::Table(self.list(key)?));
            }
            9 => {
                self.byte()?;
                self.number()?;
                0
            }
            _ => return None,
        };
        self.bytes(skipped)?;
        Some(Constant::Other)
    }

    /// Reads the line of each instruction: one base for each interval, and what is
    /// added to it.
    fn lines(&mut self, count: usize) -> Option<Vec<u32>> {
        if self.byte()? == 0 {
            return Some(Vec::new());
        }
        let interval = u32::from(self.byte()?);
        let added = self.bytes(count)?;
        let bases = (count.checked_sub(1)? >> interval) + 1;
        let mut base = 0_u32;
        let bases = (0..bases).map(|_| {
            base = base.wrapping_add(self.word()?);
            Some(base)
        });
        let bases: Vec<u32> = bases.collect::<Option<_>>()?;
        let mut offset = 0_u8;
        let line = |(at, added): (usize, &u8)| {
            offset = offset.wrapping_add(*added);
            Some(bases.get(at >> interval)?.wrapping_add(u32::from(offset)))
        };
        added.iter().enumerate().map(line).collect()
    }
}

const VERSION: u8 = 9;
const TYPES: u8 = 3;
const GETGLOBAL: u8 = 7;
const SETGLOBAL: u8 = 8;
const GETIMPORT: u8 = 12;
const SETTABLEKS: u8 = 16;
const NAMECALL: u8 = 20;
/// Operations of two words.
const LONG: [u8; 29] = [
    7, 8, 12, 15, 16, 20, 27, 28, 29, 30, 31, 32, 53, 55, 58, 60, 66, 74, 75, 77, 78, 79, 80, 83,
    84, 85, 86, 87, 88,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Program;

    fn names(source: &str) -> Names {
        let program = Program::compile("s", source).expect("it compiles");
        Names::read(&program.bytecode).expect("the layout is known")
    }

    #[test]
    fn names_are_found_with_their_lines() {
        let names = names(
            "local t = {field = 1, other = print}
             function handshake(tls)
                 tls:use(string.lower(tls.server_name))
                 for i = 1, 10 do

                     frobnicate(i)
                 end
                 t.set = function() return {inner = os.time()} end
             end",
        );
        let used: Vec<_> = names
            .used
            .iter()
            .map(|used| (used.line, &used.name))
            .collect();
        for (line, name) in [
            (1, Name::Global("print".into())),
            (3, Name::Method("use".into())),
            (3, Name::Member("string".into(), "lower".into())),
            (6, Name::Global("frobnicate".into())),
            (8, Name::Member("os".into(), "time".into())),
        ] {
            assert!(used.contains(&(line, &name)), "{name:?} in {used:?}");
        }
        assert!(names.globals.contains("handshake"));
        for field in ["field", "other", "set", "inner"] {
            assert!(
                names.fields.contains(field),
                "{field} in {:?}",
                names.fields
            );
        }
    }

    #[test]
    fn all_of_the_language_is_read() {
        let source = "local a, b = 1, 2.5
             local v = {1, 2, 3, [a] = b, x = 'y', z = nil}
             local s = `{a} and {b}`
             local function f(...) local x, y = ... return select('#', ...), x // 2, y % 3 end
             for k, v in pairs(v) do if k == nil or v ~= 'x' then continue end end
             for i = 10, 1, -1 do a += i if a > 5 and b <= 3 then break end end
             while a do a = nil end
             type T = {x: number, y: string?}
             local typed: T = {x = 1, y = 'z'}
             local fn = function(n: number): number return if n > 0 then n else -n end
             string.format('%s', s) math.max(1, 2, 3) bit32.band(1, 2)
             function handshake(tls) return #s, not a, -b, a .. b, f(1), fn(2), typed end";
        names(source);
        // Constants beyond 1,023 are named in other ways.
        let many = (0..3000).map(|number| format!("do local x = 'text {number}' g(x) end"));
        let many = many.collect::<Vec<_>>().join("\n");
        let names = names(&format!("{many}\nlast.member()"));
        let last = names.used.last().expect("a name");
        assert_eq!(
            (last.line, &last.name),
            (3001, &Name::Global("last".into()))
        );
    }
}
