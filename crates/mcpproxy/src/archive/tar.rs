//! Writes and reads the part of the tar format that archives use: regular files, with long names in pax headers.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;
/// The longest entry. The writer splits tables long before.
const ENTRY_MAX_BYTES: u64 = 256 * 1024 * 1024;
const NAME_MAX_BYTES: usize = 100;
const MODE: u32 = 0o600;
/// Every header has this word at this position.
const MAGIC: &str = "ustar";
const MAGIC_AT: usize = 257;

pub(super) struct TarWriter<W> {
    out: W,
    time_s: u64,
}

impl<W: Write> TarWriter<W> {
    pub(super) fn new(out: W, time_s: u64) -> Self {
        Self { out, time_s }
    }

    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // A reader refuses a longer one, and then it is too late.
        if bytes.len() as u64 > ENTRY_MAX_BYTES {
            let message = format!("`{name}` is larger than {} MiB", ENTRY_MAX_BYTES / (1024 * 1024));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        if name.len() > NAME_MAX_BYTES {
            let record = pax_record("path", name);
            self.entry("pax", b'x', record.as_bytes())?;
            return self.entry("long-name", b'0', bytes);
        }
        self.entry(name, b'0', bytes)
    }

    /// Writes the two empty blocks that end an archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, kind: u8, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&header(name, kind, bytes.len() as u64, self.time_s))?;
        self.out.write_all(bytes)?;
        self.out.write_all(&vec![0; bytes.len().next_multiple_of(BLOCK) - bytes.len()])
    }
}

/// `LENGTH path=NAME`, where the length counts itself.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

fn header(name: &str, kind: u8, size: u64, time_s: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(&mut block, 0, name);
    put(&mut block, 100, &format!("{MODE:07o}"));
    put(&mut block, 108, "0000000");
    put(&mut block, 116, "0000000");
    put(&mut block, 124, &format!("{size:011o}"));
    put(&mut block, 136, &format!("{time_s:011o}"));
    put(&mut block, 156, char::from(kind).encode_utf8(&mut [0; 4]));
    put(&mut block, MAGIC_AT, MAGIC);
    put(&mut block, 263, "00");
    let sum = checksum(&block);
    put(&mut block, 148, &format!("{sum:06o}\0 "));
    block
}

fn put(block: &mut [u8; BLOCK], at: usize, text: &str) {
    for (to, from) in block.iter_mut().skip(at).zip(text.bytes()) {
        *to = from;
    }
}

/// The sum of all bytes, with spaces in place of the checksum itself.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let byte = |(index, byte): (usize, &u8)| u64::from(if (148..156).contains(&index) { b' ' } else { *byte });
    block.iter().enumerate().map(byte).sum()
}

pub(super) struct TarReader<R> {
    input: R,
}

impl<R: Read> TarReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input }
    }

    /// The next file. An archive without its end is an error.
    pub(super) fn next(&mut self) -> io::Result<Option<(String, Vec<u8>)>> {
        let mut long_name = None;
        loop {
            let mut block = [0; BLOCK];
            self.input.read_exact(&mut block).map_err(cut_off)?;
            if block == [0; BLOCK] {
                return Ok(None);
            }
            if number(&block, 148, 7) != Some(checksum(&block)) {
                return Err(invalid("a header has a wrong checksum"));
            }
            let size = number(&block, 124, 12).filter(|size| *size <= ENTRY_MAX_BYTES);
            let size =
                size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| invalid("an entry is too large"))?;
            let mut bytes = Vec::new();
            let padded = size.next_multiple_of(BLOCK);
            if self.input.by_ref().take(padded as u64).read_to_end(&mut bytes)? != padded {
                return Err(cut_off(io::ErrorKind::UnexpectedEof.into()));
            }
            bytes.truncate(size);
            match block.get(156) {
                Some(b'x') => {
                    let text = String::from_utf8(bytes).map_err(|_| invalid("a name is not UTF-8"))?;
                    long_name =
                        text.split_once(" path=").and_then(|(_, name)| name.strip_suffix('\n')).map(str::to_owned);
                }
                Some(b'0') => {
                    let name = long_name.take().map_or_else(|| text_at(&block, 0, NAME_MAX_BYTES), Ok)?;
                    return Ok(Some((name, bytes)));
                }
                Some(_) | None => return Err(invalid("an entry is not a regular file")),
            }
        }
    }
}

/// Tells if these first bytes of a file can begin an archive.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT..).is_some_and(|rest| rest.starts_with(MAGIC.as_bytes()))
}

fn text_at(block: &[u8; BLOCK], at: usize, length: usize) -> io::Result<String> {
    let bytes: Vec<u8> = block.iter().skip(at).take(length).copied().take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).map_err(|_| invalid("a name is not UTF-8"))
}

fn number(block: &[u8; BLOCK], at: usize, length: usize) -> Option<u64> {
    let text = text_at(block, at, length).ok()?;
    u64::from_str_radix(text.trim(), 8).ok()
}

/// Says in the words of a backup that a file is too short. Other errors stay as they are.
fn cut_off(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off"),
        _ => error,
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let long = format!("files/contracts/{}.yaml", "x".repeat(150));
        let entries = [("a", b"".to_vec()), ("files/é.txt", vec![7; 512]), (long.as_str(), vec![1; 1000])];
        let mut writer = TarWriter::new(Vec::new(), 1_700_000_000);
        for (name, bytes) in &entries {
            writer.add(name, bytes).unwrap();
        }
        let archive = writer.finish().unwrap();
        assert_eq!(archive.len() % BLOCK, 0);
        assert!(begins(&archive));
        assert!(!begins(b"hello"));
        let mut reader = TarReader::new(archive.as_slice());
        for (name, bytes) in &entries {
            assert_eq!(reader.next().unwrap(), Some(((*name).to_owned(), bytes.clone())));
        }
        assert_eq!(reader.next().unwrap(), None);
        for cut in [0, 100, 512, archive.len() - 1024] {
            let mut reader = TarReader::new(archive.get(..cut).unwrap());
            let outcome = std::iter::from_fn(|| reader.next().transpose()).find(Result::is_err);
            assert!(outcome.is_some(), "cut at {cut}");
        }
    }
}
