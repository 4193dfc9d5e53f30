//! Input files, which may be compressed with gzip or Zstandard. The format is recognised by the first bytes of a file,
//! not by its name.
//!
//! A file may consist of several members or frames in sequence, as parallel compressors write them. Data that is
//! damaged or cut off is an error, never an early end.

use crate::text::readable;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Endings of the names that a file may have. A user who edits a trace decompresses it first, so a file that is not
/// compressed is preferred.
const ENDINGS: [&str; 3] = ["", PUBLISHED, ".zst"];

/// Ending of published traces.
const PUBLISHED: &str = ".gz";

/// Maximum length of a text that is read whole, after decompression: several times the largest cluster that Kubernetes
/// supports.
const TEXT_BYTES_MAX: u64 = 4 << 30;

/// Length up to which a text may be any number of times as long as its file, because lists of equal pods compress to a
/// thousandth. A longer text may be at most [`EXPANSION_MAX`] times as long, so that a damaged or hostile file of a few
/// megabytes cannot fill the memory. Lists of real clusters compress to about a thirtieth.
const TEXT_BYTES_FREE: u64 = 512 << 20;
const EXPANSION_MAX: u64 = 128;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Last three bytes of the magic number of a frame without content; the first byte is 0x50 to 0x5f. Some compressors
/// write such a frame at the start.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Formats that are not supported: the first bytes, the name, and the program that decompresses a file.
const OTHERS: [(&[u8], &str, &str); 3] = [
    (b"\xfd7zXZ\0", "xz", "xz -d"),
    (b"BZh", "bzip2", "bzip2 -d"),
    (b"PK\x03\x04", "zip", "unzip"),
];

/// Opens a file, and decompresses it if it is compressed.
pub(crate) fn open_input(file: &Path) -> io::Result<Box<dyn BufRead>> {
    decompress(BufReader::new(readable::open(file)?))
}

/// Returns the path of a file: the first of `name.csv`, `name.csv.gz` and `name.csv.zst` that exists. If none of them
/// exists, returns the path of the form in which traces are published.
#[must_use]
pub fn stored(file: &Path) -> PathBuf {
    let with = |ending: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let found = ENDINGS.iter().map(|ending| with(ending)).find(|path| path.is_file());
    found.unwrap_or_else(|| with(PUBLISHED))
}

/// Returns the name of a file without the ending that marks a compressed file.
#[must_use]
pub fn plain_name(name: &str) -> &str {
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name)
}

/// Reads the whole text of a file, decompressed.
///
/// # Errors
/// If the file cannot be read, is damaged or too long, or is not UTF-8.
pub fn read_text(file: &Path) -> io::Result<String> {
    let known = std::fs::metadata(file)?;
    whole_text(open_input(file)?, bytes_max(known.is_file().then_some(known.len())))
}

/// Reads the whole text of standard input, decompressed.
///
/// # Errors
/// If standard input cannot be read, is damaged or too long, or is not UTF-8.
pub(crate) fn read_stdin() -> io::Result<String> {
    whole_text(decompress(BufReader::new(io::stdin()))?, bytes_max(None))
}

/// Maximum length of the text of a file with this length; `None` is an input that is not a file.
fn bytes_max(stored: Option<u64>) -> u64 {
    let expanded = stored.map_or(TEXT_BYTES_MAX, |stored| stored.saturating_mul(EXPANSION_MAX));
    expanded.clamp(TEXT_BYTES_FREE, TEXT_BYTES_MAX)
}

/// The whole text of an input of at most `max` bytes.
fn whole_text(input: Box<dyn BufRead>, max: u64) -> io::Result<String> {
    let mut text = Vec::new();
    let read = input.take(max + 1).read_to_end(&mut text)?;
    if read as u64 > max {
        return Err(invalid(format!(
            "is longer than {max} bytes, the maximum for a file of its size: it may be damaged"
        )));
    }
    // PowerShell's redirection (`>`) writes UTF-16.
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
        return Err(invalid("is UTF-16 text: save it as UTF-8"));
    }
    String::from_utf8(text).map_err(|_| invalid("is not UTF-8 text: save it as UTF-8"))
}

/// A read error as a message for users.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidData => error.to_string(),
        _ => format!("cannot be read: {error}"),
    }
}

/// Decompresses an input, if it is compressed.
fn decompress(mut input: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let first = input.fill_buf()?;
    if let Some((_, format, program)) = OTHERS.iter().find(|(magic, ..)| first.starts_with(magic)) {
        return Err(invalid(format!(
            "is compressed with {format}, which is not supported: decompress it first with `{program}`, or compress it \
             with gzip or zstd"
        )));
    }
    if first.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(BufReader::new(Gzip(MultiGzDecoder::new(input)))));
    }
    if is_zstd(first) {
        return Ok(Box::new(BufReader::new(Zstd {
            input,
            decoder: FrameDecoder::new(),
            in_frame: false,
        })));
    }
    Ok(Box::new(input))
}

/// Whether these bytes are the start of a Zstandard frame.
fn is_zstd(bytes: &[u8]) -> bool {
    let skippable = bytes.first().is_some_and(|first| first & 0xf0 == 0x50);
    bytes.starts_with(&ZSTD_MAGIC) || skippable && bytes[1..].starts_with(&ZSTD_SKIPPABLE)
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message.into())
}

fn damaged(format: &str, error: impl std::fmt::Display) -> io::Error {
    invalid(format!("the {format} data is damaged: {error}"))
}

fn cut_off(format: &str) -> io::Error {
    invalid(format!("the {format} data ends too early: the file is incomplete"))
}

/// The content of a gzip file, with errors that name the format.
struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => cut_off("gzip"),
            ErrorKind::InvalidInput | ErrorKind::InvalidData => damaged("gzip", error),
            _ => error,
        })
    }
}

/// The content of the frames of a Zstandard file.
struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether a frame was begun but not ended.
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Advances to the next frame that has content. Returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(length.into())?,
                Err(error) => return Err(fault(&error)),
            }
        }
        Ok(false)
    }

    /// Skips a frame without content.
    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
        if skipped < length { Err(cut_off("zstd")) } else { Ok(()) }
    }

    /// Compares the content of a frame with the frame's checksum, if the frame has one.
    fn check_sum(&self) -> io::Result<()> {
        let sum = self.decoder.get_checksum_from_data();
        if sum.is_none() || sum == self.decoder.get_calculated_checksum() {
            Ok(())
        } else {
            Err(damaged("zstd", "its checksum differs"))
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() {
            if !self.in_frame {
                self.in_frame = self.next_frame()?;
                if !self.in_frame {
                    break;
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.input, one).map_err(|error| fault(&error))?;
            }
            let read = self.decoder.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            self.check_sum()?;
            self.in_frame = false;
        }
        Ok(0)
    }
}

/// Converts an error of the decoder, which may be caused by an unexpected end of the input.
fn fault(error: &(dyn std::error::Error + 'static)) -> io::Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let found = error.downcast_ref::<io::Error>();
        if found.is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return cut_off("zstd");
        }
        cause = match found {
            // `source` of an I/O error skips the error in it and returns the source of that error. So the error in it
            // is examined directly.
            Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    damaged("zstd", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, zstd};
    use std::io::Cursor;

    fn unpack(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        let mut input = decompress(Cursor::new(bytes.to_vec())).map_err(|e| describe(&e))?;
        input.read_to_string(&mut text).map_err(|error| describe(&error))?;
        Ok(text)
    }

    #[test]
    fn both_formats_and_plain_text_are_read() {
        for bytes in [b"plain".to_vec(), gzip("plain"), zstd("plain")] {
            assert_eq!(unpack(&bytes).as_deref(), Ok("plain"));
        }
        assert_eq!(unpack(b"").as_deref(), Ok(""));
        assert!(unpack(b"(\xb5 no frame").is_err(), "it is not UTF-8");
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        let skippable = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
        assert_eq!(unpack(&[gzip("a"), gzip("b")].concat()).as_deref(), Ok("ab"));
        let frames = [skippable.clone(), zstd("a"), skippable.clone(), zstd(""), zstd("b")];
        assert_eq!(unpack(&frames.concat()).as_deref(), Ok("ab"));
        assert_eq!(unpack(&skippable).as_deref(), Ok(""));
    }

    #[test]
    fn no_cut_is_taken_for_the_end() {
        let text: String = (0..50_000).map(|i| format!("row-{}\n", i * 7919)).collect();
        for (name, bytes) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
            assert_eq!(unpack(&bytes).unwrap(), text);
            let expected = format!("the {name} data ends too early: the file is incomplete");
            for cut in [5, 12, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
                assert_eq!(unpack(&bytes[..cut]).err(), Some(expected.clone()), "{cut}");
            }
        }
    }

    #[test]
    fn damage_is_an_error() {
        let text: String = (0..50_000).map(|i| format!("row-{}\n", i * 7919)).collect();
        for bytes in [gzip(&text), zstd(&text)] {
            for at in (8..bytes.len()).step_by(bytes.len() / 40) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x10;
                // The name and the time in the header may be any bytes.
                let read = unpack(&bytes);
                assert!(
                    read.is_err() || read.as_deref() == Ok(&text),
                    "a flip at {at} is not seen"
                );
            }
        }
        let after = [zstd("a"), b"rest".to_vec()].concat();
        assert!(unpack(&after).unwrap_err().starts_with("the zstd data is damaged: "));
    }

    #[test]
    fn a_small_file_does_not_become_a_huge_text() {
        assert_eq!(bytes_max(Some(1000)), TEXT_BYTES_FREE);
        assert_eq!(bytes_max(Some(8 << 20)), 128 * (8 << 20));
        assert_eq!([bytes_max(Some(1 << 40)), bytes_max(None)], [TEXT_BYTES_MAX; 2]);
        let whole = |max| {
            let spaces = gzip(&" ".repeat(1 << 20));
            whole_text(decompress(Cursor::new(spaces)).unwrap(), max)
        };
        assert_eq!(whole(1 << 20).unwrap().len(), 1 << 20);
        let error = whole((1 << 20) - 1).unwrap_err().to_string();
        assert!(error.starts_with("is longer than 1048575 bytes, "), "{error}");
    }

    #[test]
    fn a_file_is_found_under_each_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("list.csv");
        assert_eq!(stored(&base), dir.path().join("list.csv.gz"), "the published name");
        for (name, content) in
            [("list.csv.zst", zstd("a")), ("list.csv.gz", gzip("a")), ("list.csv", b"a".to_vec())]
        {
            std::fs::write(dir.path().join(name), content).unwrap();
            assert_eq!(stored(&base), dir.path().join(name));
            assert_eq!(read_text(&stored(&base)).unwrap(), "a");
        }
        assert_eq!(plain_name("list.csv.zst"), "list.csv");
    }
}
