//! A child process that ends with the benchmark.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

const GRACE: Duration = Duration::from_secs(5);
const LOG_TAIL_BYTES: usize = 2000;

pub(crate) struct Child {
    name: &'static str,
    process: std::process::Child,
    log: File,
    workers: Workers,
}

/// The destination of standard output. Use a pipe only if it is read, because a full pipe blocks the process.
#[derive(Clone, Copy)]
pub(crate) enum Stdout {
    Log,
    Pipe,
}

/// The threads or processes that do the work of a process.
#[derive(Clone, Copy)]
pub(crate) enum Workers {
    /// Its own threads. Its children, such as servers over stdio, are not counted.
    Threads,
    /// Its children, as in nginx.
    Children,
}

impl Child {
    /// Starts a process. Its output goes to an unnamed file, which is shown if the process fails.
    pub(crate) fn start(name: &'static str, mut command: Command, stdout: Stdout) -> Result<Self> {
        let log = tempfile::tempfile().context("could not make a log file")?;
        let program = command.get_program().to_string_lossy().into_owned();
        let process = command
            .stdin(Stdio::null())
            .stdout(match stdout {
                Stdout::Log => log.try_clone()?.into(),
                Stdout::Pipe => Stdio::piped(),
            })
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("could not start {name} (`{program}`)"))?;
        Ok(Child { name, process, log, workers: Workers::Threads })
    }

    pub(crate) fn with_workers(mut self, workers: Workers) -> Self {
        self.workers = workers;
        self
    }

    pub(crate) fn first_line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(stdout) = self.process.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.is_empty() {
            bail!("{} printed nothing\n{}", self.name, self.log_tail())
        }
        Ok(line)
    }

    /// Fails with the last output of the process if it has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}\n{}", self.name, self.log_tail()),
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        let length = self.log.metadata().map_or(0, |metadata| metadata.len());
        let mut tail = [0; LOG_TAIL_BYTES];
        // The log only explains an error that is reported already, so an error while reading it is ignored.
        let read = self.log.read_at(&mut tail, length.saturating_sub(LOG_TAIL_BYTES as u64)).unwrap_or_default();
        String::from_utf8_lossy(tail.get(..read).unwrap_or_default()).into_owned()
    }

    /// Returns the CPU time of the process, and of its children if they do its work.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let pid = self.process.id();
        let mut ticks = Stat::read(pid)?.cpu_ticks;
        match self.workers {
            Workers::Threads => {}
            Workers::Children => ticks += children(pid)?.iter().map(|child| child.cpu_ticks).sum::<u64>(),
        }
        Ok(duration_of(ticks))
    }

    pub(crate) fn rss_kib(&self) -> Result<u64> {
        rss_kib(self.process.id())
    }
}

/// Returns the CPU time of this process.
pub(crate) fn own_cpu() -> Result<Duration> {
    Ok(duration_of(Stat::read(std::process::id())?.cpu_ticks))
}

/// Returns the resident memory of this process.
pub(crate) fn own_rss_kib() -> Result<u64> {
    rss_kib(std::process::id())
}

fn duration_of(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn rss_kib(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("could not read `{path}`"))?;
    parse_rss_kib(&status).with_context(|| format!("no VmRSS in `{path}`"))
}

impl Drop for Child {
    fn drop(&mut self) {
        // SIGTERM first, so that the nginx master stops its workers. SIGKILL would leave them running.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match self.process.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        for child in children(self.process.id()).unwrap_or_default() {
            if let Some(pid) = Pid::from_raw(child.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Stat {
    pid: i32,
    parent: i32,
    cpu_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("could not read `{path}`"))?;
        Self::parse(&text).with_context(|| format!("could not parse `{path}`"))
    }

    fn parse(text: &str) -> Option<Self> {
        let (pid, _) = text.split_once(' ')?;
        // The program name is in parentheses, and may itself contain parentheses and spaces.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Stat {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: number(11)? + number(12)?,
        })
    }
}

fn children(parent: u32) -> Result<Vec<Stat>> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").context("could not read `/proc`")? {
        let name = process?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Other processes can end during the loop.
        let Ok(stat) = Stat::read(pid) else { continue };
        if u32::try_from(stat.parent) == Ok(parent) {
            found.push(stat);
        }
    }
    Ok(found)
}

fn parse_rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_survives_a_strange_name() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 1 0 100 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.cpu_ticks), (42, 7, 175));
    }

    #[test]
    fn rss_is_read_in_kib() {
        assert_eq!(parse_rss_kib("Name:\tx\nVmRSS:\t   12345 kB\nThreads:\t1\n"), Some(12345));
        assert_eq!(parse_rss_kib("Name:\tx\n"), None);
    }

    #[test]
    fn dropping_ends_the_process() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let child = Child::start("sleep", command, Stdout::Log).unwrap();
        let pid = child.process.id();
        assert!(child.rss_kib().is_ok());
        drop(child);
        assert!(Stat::read(pid).is_err());
    }
}
