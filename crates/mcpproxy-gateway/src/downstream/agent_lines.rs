//! Reads the lines of an agent, each within a size limit. The rest of a longer line is skipped, and never kept.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentLine {
    /// A line with its line break. The last line may have none.
    Whole(Vec<u8>),
    /// A line over the limit, which has been skipped to its end.
    TooLong,
}

pub(super) struct AgentLines<R> {
    reader: BufReader<R>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> AgentLines<R> {
    /// The line break does not count towards the limit.
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::new(reader), limit }
    }

    /// Reads on. Returns `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<AgentLine>> {
        let mut bytes = Vec::new();
        // One byte over the limit tells a long line from one that just fits.
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut bytes).await?;
        if read == 0 {
            return Ok(None);
        }
        if read > self.limit && bytes.last() != Some(&b'\n') {
            // Gives the memory back before the rest arrives, which may take long.
            drop(bytes);
            self.skip().await?;
            return Ok(Some(AgentLine::TooLong));
        }
        Ok(Some(AgentLine::Whole(bytes)))
    }

    async fn skip(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            let newline = memchr::memchr(b'\n', chunk);
            let (used, is_end) = (newline.map_or(chunk.len(), |at| at + 1), newline.is_some() || chunk.is_empty());
            self.reader.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }
}
