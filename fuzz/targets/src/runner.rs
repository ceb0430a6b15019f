//! Runs a target: on its seeds, and then on mutations of them.
//!
//! ```text
//!   seeds --> corpus --mutate--> input --> target, with limits of time and memory --> failure: a file, and a command
//!                ^                            |
//!                +--- new number of allocations
//! ```
//!
//! An input that makes the target allocate a different number of times than all inputs before it has probably reached
//! different code. So it joins the corpus. That is coarser than the coverage that cargo-fuzz measures, and needs no
//! instrumentation.
//!
//! The same seed gives the same inputs. Their number depends on the limits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::Streams;

use crate::mutate::mutate;
use crate::{INPUT_BYTES_MAX, Target};

/// Maximum processor time of a target for one input.
pub const INPUT_CPU_MAX: Duration = Duration::from_secs(5);
/// Maximum elapsed time for one input: other programs may use the processor, and threads may wait for each other.
pub const INPUT_TIME_MAX: Duration = Duration::from_secs(120);
/// Interval of the checks of a target.
const LOOK: Duration = Duration::from_secs(1);
/// Linux reports processor time to programs in hundredths of a second.
const CLOCK_TICK: Duration = Duration::from_millis(10);
/// Maximum number of inputs in the corpus.
const CORPUS_MAX: usize = 4096;

/// The limits of a run: the first limit that is reached ends it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of mutations.
    pub inputs: u64,
    /// Maximum elapsed time.
    pub time: Duration,
}

/// A run without a failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// Number of seeds and mutations.
    pub inputs: u64,
    /// Number of inputs in the corpus at the end.
    pub corpus: usize,
    /// The longest time for one input.
    pub slowest: Duration,
    /// Maximum memory that one input needed, in bytes.
    pub memory: u64,
}

/// An input with which a target fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failure, in a sentence.
    pub what: String,
    /// The input.
    pub input: Vec<u8>,
}

/// The thread that runs a target, and its input.
#[derive(Debug, Default)]
struct Current {
    /// The thread's folder in `/proc`.
    thread: PathBuf,
    /// The current input, and its start time.
    input: Option<(Instant, Vec<u8>)>,
}

impl Current {
    /// The processor time of the thread so far.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(self.thread.join("stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2); // user, system
        let ticks = ticks.filter_map(|field| field.parse::<u32>().ok());
        CLOCK_TICK * ticks.sum::<u32>()
    }
}

/// Runs a target until a limit or a failure. `streams` provides the randomness of the mutations. An input that never
/// ends ends the process, after `hangs` has been called.
pub fn run(
    target: &Target,
    streams: &Streams,
    limits: Limits,
    hangs: impl Fn(&Failure),
) -> Result<Ran, Failure> {
    let current = Mutex::default();
    let (done, ended) = mpsc::channel();
    thread::scope(|scope| {
        let current = &current;
        let running = scope.spawn(move || {
            let result = run_all(target, streams, limits, current);
            let _ = done.send(()); // after the end, there is no receiver
            result
        });
        let mut seen = None;
        while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
            if let Some(failure) = hanging(&lock(current), &mut seen) {
                hangs(&failure);
                std::process::exit(1); // a thread cannot be stopped
            }
        }
        running
            .join()
            .unwrap_or_else(|_| unreachable!("panics of the target are caught"))
    })
}

/// The failure of an input that takes too long; `seen` has the start of the input at the last check, and the processor
/// time then.
fn hanging(current: &Current, seen: &mut Option<(Instant, Duration)>) -> Option<Failure> {
    let (since, input) = current.input.as_ref()?;
    let cpu = current.cpu();
    let first = match seen {
        Some((same, first)) if same == since => *first,
        _ => seen.insert((*since, cpu)).1,
    };
    let (used, time) = (cpu.saturating_sub(first), since.elapsed());
    let is_late = used > INPUT_CPU_MAX || time > INPUT_TIME_MAX;
    is_late.then(|| Failure {
        what: format!("it is still running after {time:.0?}, {used:.0?} of it on a processor"),
        input: input.clone(),
    })
}

fn lock(current: &Mutex<Current>) -> std::sync::MutexGuard<'_, Current> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_all(
    target: &Target,
    streams: &Streams,
    limits: Limits,
    current: &Mutex<Current>,
) -> Result<Ran, Failure> {
    let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
    lock(current).thread = Path::new("/proc").join(thread);
    let mut random = streams.stream(target.name);
    let mut seeds = target.seeds();
    seeds
        .iter_mut()
        .for_each(|seed| seed.truncate(INPUT_BYTES_MAX));
    let mut ran = Ran::default();
    let mut reached = BTreeSet::new();
    let mut take = |input: &[u8]| {
        lock(current).input = Some((Instant::now(), input.to_vec()));
        let cost = once(target, input)?;
        lock(current).input = None;
        ran.inputs += 1;
        ran.slowest = ran.slowest.max(cost.time);
        ran.memory = ran.memory.max(cost.memory);
        Ok(reached.insert(cost.allocations))
    };
    // The first input of a process also allocates for all later inputs, so it does not count.
    if let Some(input) = seeds.first() {
        once(target, input)?;
    }
    let mut corpus = Vec::new();
    for input in seeds {
        take(&input)?;
        corpus.push(input);
    }
    let began = Instant::now();
    for _ in 0..limits.inputs {
        if began.elapsed() >= limits.time {
            break;
        }
        let input = mutate(&mut random, &corpus, target.tokens);
        if take(&input)? && corpus.len() < CORPUS_MAX {
            corpus.push(input);
        }
    }
    ran.corpus = corpus.len();
    Ok(ran)
}

/// The cost of one input.
struct Cost {
    allocations: u64,
    memory: u64,
    time: Duration,
}

/// Runs a target on one input.
fn once(target: &Target, input: &[u8]) -> Result<Cost, Failure> {
    let failed = |what| Failure {
        what,
        input: input.to_vec(),
    };
    catch_panics();
    let began = Instant::now();
    let mut panicked = None;
    let used = allocation_counter::measure(|| panicked = caught(|| (target.run)(input)));
    let time = began.elapsed();
    if let Some(what) = panicked {
        return Err(failed(what));
    }
    if let Some(what) = too_much(target, used.bytes_max) {
        return Err(failed(what));
    }
    Ok(Cost {
        allocations: used.count_total,
        memory: used.bytes_max,
        time,
    })
}

/// The failure of a target that has held this number of bytes at once; `None` if it is within the limit.
fn too_much(target: &Target, bytes: u64) -> Option<String> {
    (bytes > target.memory_max).then(|| format!("it held {bytes} bytes at once"))
}

/// Runs a target on one input for a fuzzer that handles panics itself.
///
/// # Panics
///
/// If the target fails, or holds too much memory.
pub fn run_once(target: &Target, input: &[u8]) {
    let used = allocation_counter::measure(|| (target.run)(input));
    if let Some(what) = too_much(target, used.bytes_max) {
        panic!("{what}")
    }
}

/// Runs a target on one input that a failure has written.
pub fn replay(target: &Target, input: &[u8]) -> Result<(), Failure> {
    once(target, input).map(|_| ())
}

thread_local! {
    /// Whether panics of this thread are caught as results.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// The latest caught panic.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Silences panics of threads that catch them.
fn catch_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_CAUGHT.get() {
                PANIC.set(Some(info.to_string()))
            } else {
                usual(info)
            }
        }));
    });
}

/// The message and the position of a panic in `work`; `None` without a panic.
fn caught(work: impl FnOnce()) -> Option<String> {
    IS_CAUGHT.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(false);
    let told = PANIC.take();
    result.is_err().then(|| told.unwrap_or_default())
}

/// Writes the input of a failure into a folder; returns the file.
pub fn save(folder: &Path, target: &Target, failure: &Failure) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    // Equal inputs get equal names (FNV-1a).
    let hash = failure
        .input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    let path = folder.join(format!("{}-{hash:016x}", target.name));
    fs::write(&path, &failure.input)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        inputs: 20_000,
        time: Duration::from_secs(60),
    };

    fn target(run: fn(&[u8])) -> Target {
        Target {
            name: "test",
            about: "",
            run,
            begin: || vec![b"seed".to_vec()],
            tokens: &["token"],
            memory_max: 64 << 20,
        }
    }

    fn ran(run: fn(&[u8])) -> Result<Ran, Failure> {
        super::run(&target(run), &Streams::new(1), LIMITS, |_| {})
    }

    #[test]
    fn a_panic_is_found_again_by_the_same_seed_and_its_input_shows_it() {
        let run = |bytes: &[u8]| assert!(!bytes.starts_with(b"token"), "found");
        let failure = ran(run).unwrap_err();
        assert!(failure.what.contains("found"), "{failure:?}");
        assert!(failure.input.starts_with(b"token"));
        assert_eq!(ran(run).unwrap_err(), failure);
        assert!(replay(&target(run), &failure.input).is_err());
        assert!(replay(&target(run), b"seed").is_ok());
    }

    #[test]
    fn an_input_that_uses_the_processor_for_too_long_is_found() {
        let thread = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap());
        let input = Some((Instant::now(), b"x".to_vec()));
        let current = Current { thread, input };
        let mut seen = None;
        assert_eq!(hanging(&current, &mut seen), None);
        // As if this thread had used no processor time before.
        let (since, cpu) = seen.unwrap();
        assert_eq!(hanging(&current, &mut Some((since, cpu))), None);
        let long_ago = since.checked_sub(INPUT_TIME_MAX * 2).unwrap();
        let current = Current {
            input: Some((long_ago, b"x".to_vec())),
            ..current
        };
        assert_eq!(hanging(&current, &mut None).unwrap().input, b"x");
    }

    #[test]
    fn memory_has_a_bound() {
        let run = |bytes: &[u8]| drop(vec![1_u8; bytes.len() << 20]);
        let failure = ran(run).unwrap_err();
        assert!(failure.what.starts_with("it held "), "{failure:?}");
        assert!(failure.input.len() > 64);
        let again = panic::catch_unwind(|| run_once(&target(run), &failure.input));
        assert!(again.is_err());
        run_once(&target(run), b"seed");
    }

    #[test]
    fn an_input_that_reaches_something_new_joins_the_corpus() {
        // One letter after another, which no single mutation finds.
        let run = |bytes: &[u8]| {
            let wanted = b"deeper";
            let same = bytes.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            (0..same).for_each(|n| drop(std::hint::black_box(vec![n])));
            assert!(same < 3, "reached");
        };
        assert!(ran(run).is_err());
    }

    #[test]
    fn a_failure_is_a_file() {
        let folder = std::env::temp_dir().join(format!("weir-fuzz-{}", std::process::id()));
        let failure = Failure {
            what: String::new(),
            input: b"x".to_vec(),
        };
        let path = save(&folder, &target(|_| {}), &failure).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"x");
        fs::remove_dir_all(folder).unwrap();
    }
}
