//! Figures 7 to 9: load tests of the transport with one and with two threads.

use super::at;
use crate::report::Line;
use crate::reproduce::figure::swept;
use crate::reproduce::findings::{check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Series, pairs, series};
use crate::reproduce::recipe::{Recipe, TOLERANCE, claim, line};
use crate::reproduce::samples::Samples;

const ONE: &str = "one thread";
const TWO: &str = "two threads";
const FORMS: [&str; 2] = [ONE, TWO];
const CAPACITY: &str = "capacity_per_s";

pub(super) fn fig7(r: &mut Recipe) {
    r.title = "How many FETMLs a CETML serves";
    r.notes = &[
        "1000 events of 1024 B from each FE in a second. An FE is served if at most 0.1 % of the \
         events have no answer a second after the end, and if the number of events on their way \
         does not grow. The CE's work for an event was chosen so that one thread serves about 11 \
         FEs; CE and FEs share this machine.",
    ];
    r.loads = &["forces-flow-control/fes", "forces-flow-control/few"];
    for (form, printed) in [(ONE, 11.0), (TWO, 17.0)] {
        let place = [("form", form.into())];
        line(r, place, &["FETMLs"], [printed], [TOLERANCE])
            .ours(move |m| [at(m, "fes", form).metric("capacity_fes")]);
    }
    fn delay(m: &Measured, form: &str, fes: u32) -> Samples {
        at(m, "few", form).and("fes", fes).metric("delay_ms_mean")
    }
    r.figure("Delay of an event's answer, ms", "FETMLs", |m| {
        FORMS
            .map(|form| swept!(for n in [1, 2, 4], "{form}": delay(m, form, n)))
            .into()
    });

    claim(r, "fig7.1", "One thread serves 11 FETMLs").calibrated(|m, f| {
        check!(f, "FETMLs": between(at(m, "fes", ONE).metric("capacity_fes"), [10.0, 12.0]));
    });
    claim(r, "fig7.2", "Two threads serve 17, about 1.5 times as many").calibrated(|m, f| {
        let [one, two] = FORMS.map(|form| at(m, "fes", form).metric("capacity_fes"));
        check!(f, "FETMLs, two threads and one": times(two, one, 1.2));
        f.remark(
            "each of our CE's two threads takes as long for an event as its single thread, so two serve twice as many",
        );
    });
    claim(r, "fig7.3", "Two threads are better with few FETMLs too").measured(|m, f| {
        check!(f, for n in [1, 2, 4], "{n} FETMLs, delay, ms, two threads and one":
            less(delay(m, TWO, n), delay(m, ONE, n)));
        show!(f, m, "time for which threads wait for a processor, us for each event":
            for (n, form) in pairs(&[1, 2, 4], &FORMS), "{n} FETMLs, {form}":
                at(m, "few", form).and("fes", n).metric("wait_us_per_event"));
    });
}

const RATES: [u32; 5] = [100, 200, 400, 600, 1000];

/// The loss of a load test at a rate.
fn loss(m: &Measured, test: &str, form: &str, rate: u32) -> Samples {
    at(m, test, form).and("per_s", rate).metric("loss_ratio")
}

fn lines(m: &Measured, test: &str) -> Vec<Line> {
    FORMS
        .map(|form| swept!(for rate in RATES, "{form}": loss(m, test, form, rate)))
        .into()
}

pub(super) fn fig8(r: &mut Recipe) {
    r.title = "Loss by message rate, messages of 1024 B";
    r.notes = &[
        "Rates are scaled: 400 is the rate at which one thread still loses nothing, as in the \
         paper's Figure 8. An event is lost if it has no answer a second after the end, so that a test of 3 s \
         tolerates an overload of a third. Work of the CE as in forces-flow-control/fig7.",
    ];
    r.loads = &["forces-flow-control/rates", "forces-flow-control/lossless"];
    let x = "message rate, 400 is what one thread carries";
    r.figure("Loss of messages of 1024 B", x, |m| lines(m, "rates"));

    claim(r, "fig8.1", "No loss in either form at low rates").measured(|m, f| {
        check!(f, for (form, rate) in pairs(&FORMS, &[100, 200]), "{form}, loss at {rate}":
            at_most(loss(m, "rates", form, rate), 0.0));
    });
    claim(r, "fig8.2", "Two threads stay lossless 1.5 times further").measured(|m, f| {
        let [one, two] = FORMS.map(|form| at(m, "lossless", form).metric(CAPACITY));
        check!(f, "rate without loss, two threads and one": times(two, one, 1.2));
    });
    claim(r, "fig8.3", "Beyond that, two threads lose less").measured(|m, f| {
        for rate in [600, 1000] {
            let [one, two] = FORMS.map(|form| loss(m, "rates", form, rate).into_shares());
            check!(f, "loss at {rate}, two threads and one": less(two, one));
        }
    });
}

pub(super) fn fig9(r: &mut Recipe) {
    r.title = "Loss by message rate, messages of 64 B";
    r.notes = &[
        "Set-up as in forces-flow-control/fig8. R20: \"64 b\" is read as 64 bytes, and \"earlier\" \
         is decided by bit rate.",
    ];
    r.loads = &[
        "forces-flow-control/rates of 64 B",
        "forces-flow-control/lossless",
        "forces-flow-control/lossless of 64 B",
    ];
    let x = "message rate, 400 is what one thread carries";
    r.figure("Loss of messages of 64 B", x, |m| lines(m, "rates of 64 B"));
    fn capacity(m: &Measured, test: &str) -> Series {
        series!(for form in FORMS, "{form}": at(m, test, form).metric(CAPACITY))
    }

    claim(r, "fig9.1", "Loss grows with the rate").measured(|m, f| {
        for form in FORMS {
            let loss = |rate| loss(m, "rates of 64 B", form, rate).into_shares();
            let steps = series!(for rate in RATES, "{rate}": loss(rate));
            check!(f, "{form}, loss by rate": rises(steps));
        }
    });
    let text = "Small messages are lost earlier, in both forms";
    claim(r, "fig9.2", text).measured(|m, f| {
        for form in FORMS {
            let [small, large] = [("lossless of 64 B", 64.0), ("lossless", 1024.0)]
                .map(|(test, bytes)| at(m, test, form).metric(CAPACITY) * bytes * 8.0 / 1e6);
            check!(f, "{form}, Mbit/s without loss, 64 B and 1024 B": less(small, large));
        }
        show!(f, m, "messages a second without loss, 64 B": capacity(m, "lossless of 64 B"));
        show!(f, m, "1024 B": capacity(m, "lossless"));
    });
    let text = "Two threads are better with small messages too";
    claim(r, "fig9.3", text).measured(|m, f| {
        let [one, two] = FORMS.map(|form| at(m, "lossless of 64 B", form).metric(CAPACITY));
        check!(f, "rate without loss, one thread and two": less(one, two));
    });
}
