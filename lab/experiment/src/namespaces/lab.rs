//! Runs a plan in namespaces: every variant at every point of its sweep, several times.
//!
//! ```text
//!   plan ─▶ for each run, for each point:
//!           build namespaces ─▶ routers ready ─▶ tools ready ─▶ common start
//!             ─▶ watch ─▶ ask the routers ─▶ collect reports ─▶ measure ─▶ take all down
//! ```

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant as Wall};

use serde_json::Map;
use weir_base::{Instant, Span};
use weir_live::clock;
use weir_live::namespace::{self, Namespace};

use super::arrivals::{self, Arrived};
use super::build::Site;
use super::control_element::{self, ControlElement};
use super::controllers::Controllers;
use super::courses::Courses;
use super::endpoints::Endpoints;
use super::layer::{self, LabLayer};
use super::limits;
use super::process::Tool;
use super::router::{Router, configuration, socket};
use super::routes::Routes;
use super::sampler::Sampler;
use super::tools::{Invocation, Role, invocations};
use super::window::RunWindow;
use super::wire;
use crate::cpu::{self, Others};
use crate::error::Error;
use crate::finished::Finished;
use crate::folder::Folder;
use crate::habitat::Habitat;
use crate::lines;
use crate::measure::{distributions, measure};
use crate::options::RunOptions;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::reported::{Line, Reported};
use crate::results::{OneRun, PointResult, RunResult};
use crate::scenario::{Plan, Point, Scenario};
use crate::topology::Topology;

/// Tools must listen within this time after their start.
const READY_MAX: Duration = Duration::from_secs(20);
/// Tools must report within this time after the end.
const REPORT_MAX: Duration = Duration::from_secs(20);
/// The routers are queried this long before the end, while the traffic still flows.
const ASK_BEFORE: Span = Span::from_millis(300);
/// Interval of the checks on a run.
const LOOK: Span = Span::from_millis(100);
/// Maximum load by other programs, in processors, without a note in the result.
const OTHERS_MAX: f64 = 0.25;
/// Maximum difference between the processors' clocks without a note in the result: emulated delays start at one
/// millisecond.
const CLOCKS_APART_MAX: Span = Span::from_micros(50);
/// Number of open files that a lab needs: some for each namespace and each child process.
const FILES: u64 = 16_384;

/// Checks that the lab can run every scenario of a plan. Returns the features that it leaves out, as notes.
pub(crate) fn check(plan: &Plan) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    for point in &plan.points {
        let topology = Topology::new(&point.scenario)?;
        notes.extend(limits::check(&point.scenario, &topology)?);
    }
    notes.sort();
    notes.dedup();
    Ok(notes)
}

/// Runs `plan` in network namespaces. Unless the user is root, it must be called before the process has a
/// second thread, because it then enters a user namespace.
pub fn run(plan: &Plan, options: &RunOptions) -> Result<RunResult, Error> {
    let mut notes = check(plan)?;
    namespace::become_root()?;
    namespace::raise_file_limit(FILES)
        .map_err(Error::io("cannot raise the limit of open files"))?;
    let apart = clock::disagreement().map_err(Error::io("cannot compare the CPU clocks"))?;
    if apart > CLOCKS_APART_MAX {
        notes.push(format!(
            "the CPU clocks of this machine differ by {apart}: delays and times are wrong by as much, and queues \
             stall for that time"
        ));
    }
    let programs = Programs::new(options.executable.as_deref())?;
    let lab = Lab {
        options,
        programs,
        folder: Folder::new().map_err(Error::io("cannot create a private folder"))?,
    };
    lab.run_plan(plan, notes)
}

struct Lab<'a> {
    options: &'a RunOptions,
    programs: Programs,
    folder: Folder,
}

impl Lab<'_> {
    fn run_plan(&self, plan: &Plan, mut notes: Vec<String>) -> Result<RunResult, Error> {
        let mut progress = Progress::new(self.options.progress);
        notes
            .iter()
            .for_each(|note| progress.say(&format!("note: {note}")));
        let (runs, seed) = self.options.runs_of(plan);
        let mut points: Vec<PointResult> = plan.points.iter().map(PointResult::of).collect();
        let finished = Finished::open(plan, self.options)?;
        notes.extend(finished.note(runs as usize * points.len()));
        // The loop over runs is the outer one, so that changes of the machine during the experiment affect all points
        // alike.
        for run in 0..runs {
            for (place, point) in plan.points.iter().enumerate() {
                let step = run as usize * plan.points.len() + place;
                let steps = runs as usize * plan.points.len();
                let prefix = format!("[{}/{steps}] {}", step + 1, points[place].title());
                let seed = seed.wrapping_add(run);
                let one = match finished.take(place, seed) {
                    Some((one, _)) => one,
                    None => {
                        let one = self.run_point(point, seed, &prefix, &mut progress)?;
                        finished.add(place, &one, 0)?;
                        one
                    }
                };
                let of_run = one.notes.iter();
                notes.extend(of_run.map(|note| format!("{prefix}: {note}")));
                points[place].add(one);
            }
        }
        Ok(RunResult {
            notes,
            ..RunResult::of(plan, Habitat::Lab, seed, points)
        })
    }

    fn run_point(
        &self,
        point: &Point,
        seed: u64,
        prefix: &str,
        progress: &mut Progress,
    ) -> Result<OneRun, Error> {
        let mut notes = Vec::new();
        self.check_interrupt()?;
        progress.update(&format!("{prefix}: building"));
        let scenario = &point.scenario;
        let topology = Topology::new(scenario)?;
        let routes = Routes::new(scenario, &topology);
        let endpoints = Endpoints::new(scenario, &topology)?;
        let site = Site::build(scenario, &topology, &routes, &endpoints)?;
        let folder = self.folder.path();
        let socket = |name: &str| socket(folder, name);
        let mut layers = layer::of(scenario, &topology, &socket)?;
        let element = ControlElement::build(scenario, &topology, &site)?;
        let (mut routers, bridges) =
            self.start_weir(scenario, &topology, &site, (element.as_ref(), &layers))?;
        let invocations = invocations(scenario, &topology, &routes, seed);
        let start = clock::now() + start_margin(invocations.len());
        let mut tools = self.start_tools(&site, invocations, start)?;
        let late = clock::now().since(start);
        if late > Span::ZERO {
            notes.push(format!(
                "the traffic tools became ready {late} after the start of the run"
            ));
        }
        let end = start + scenario.duration;
        let before = Others::now();
        let window = RunWindow { start, end };
        let controllers = match &element {
            Some(_) => Controllers::follow(scenario, &socket(control_element::NAME), window)?,
            None => {
                let transports = self.options.transports;
                Controllers::start(scenario, &topology, &socket, window, seed, transports)?
            }
        };
        let sampler = Sampler::start(scenario, &topology, &socket, window)?;
        let long = site.long.iter().map(|(long, _)| long);
        let courses = Courses::start(&topology, long, &socket, window)?;
        let mut events = (&mut layers[..], &site);
        self.watch(
            window,
            &mut tools,
            &mut routers,
            &mut events,
            prefix,
            progress,
        )?;
        let mut pages = Map::new();
        let mut router_cpu = 0.0;
        for router in &routers[..bridges.start] {
            pages.insert(router.name.clone(), router.inspect());
            router_cpu += router.cpu_seconds();
        }
        notes.extend(routers[bridges.clone()].iter().filter_map(wire::lost));
        let (reported, arrived) = collect(scenario, tools)?;
        let (mut measured, mut series) = measure(scenario, &reported);
        lines::add_curves(scenario, &mut series);
        for layer in &layers {
            layer.add_metrics(&routers[..bridges.start], &mut measured);
        }
        arrivals::add_metrics(scenario, &topology, (&reported, &arrived), &mut measured);
        let trouble = controllers.finish(scenario, &mut measured, &mut series);
        notes.extend(courses.finish());
        sampler.finish(scenario.warm_up, &mut measured, &mut series);
        notes.extend(trouble);
        routers.into_iter().for_each(Router::stop);
        let length = scenario.duration.as_secs_f64();
        let now = Others::now();
        let others = now.processors(&before, length);
        if others > OTHERS_MAX {
            let who = now.who(&before, length);
            notes.push(format!(
                "other programs kept {others:.1} CPUs of this machine busy ({who}), which delays the router and the \
                 senders"
            ));
        }
        cpu::add_metrics(router_cpu, others, &[], &mut measured);
        Ok(OneRun {
            seed,
            metrics: measured.0,
            series,
            distributions: distributions(scenario, &reported),
            routers: pages,
            flows: Vec::new(),
            notes,
            captures: Vec::new(),
        })
    }

    /// Starts every `weir` process except the tools: the routers, the bridges of wires, whose positions are returned,
    /// and the control element. With a control element, its routers have associated on return.
    fn start_weir(
        &self,
        scenario: &Scenario,
        topology: &Topology,
        site: &Site,
        (element, layers): (Option<&ControlElement>, &[Box<dyn LabLayer>]),
    ) -> Result<(Vec<Router>, Range<usize>), Error> {
        let control = element.map(|element| self.start_control(element, scenario, topology, site));
        let control = control.transpose()?;
        // A router resolves its gateways when it starts. If a wire is missing then, it retries only after a second.
        let wires = self.start_bridges(site)?;
        let mut all = self.start_routers((scenario, topology), site, element, layers)?;
        let routers = all.len();
        all.extend(wires);
        let bridges = routers..all.len();
        all.extend(control);
        if let Some(element) = element {
            let socket = socket(self.folder.path(), control_element::NAME);
            element.wait_associated(&socket, &mut || {
                self.check_interrupt()?;
                all.iter_mut().try_for_each(Router::check)
            })?;
        }
        Ok((all, bridges))
    }

    fn start_routers(
        &self,
        (scenario, topology): (&Scenario, &Topology),
        site: &Site,
        element: Option<&ControlElement>,
        layers: &[Box<dyn LabLayer>],
    ) -> Result<Vec<Router>, Error> {
        let nodes = topology.nodes.iter().enumerate();
        let routers = nodes.filter(|(_, node)| node.is_router);
        let routers = routers.zip(&scenario.routers);
        ready(routers.map(|((index, node), router)| {
            let sections = element.and_then(|element| element.sections_of(index));
            let subcommand = if sections.is_some() { "fe" } else { "router" };
            let namespace = &site.namespaces[index];
            let of_layers = layers.iter().map(|layer| layer.configuration(&node.name));
            let of_layers = of_layers.collect::<String>();
            self.start_router(site, namespace, subcommand, &node.name, |socket| {
                let more = of_layers + &sections.unwrap_or_default();
                configuration(topology, node, router.mode, socket) + &more
            })
        }))
    }

    /// Starts the control element, and waits until it listens.
    fn start_control(
        &self,
        element: &ControlElement,
        scenario: &Scenario,
        topology: &Topology,
        site: &Site,
    ) -> Result<Router, Error> {
        let name = control_element::NAME;
        let mut started = self.start_router(site, &element.namespace, "ce", name, |socket| {
            element.configuration(scenario, topology, socket)
        })?;
        started.wait_ready("fes")?;
        Ok(started)
    }

    /// Starts the bridges of wires with a delay.
    fn start_bridges(&self, site: &Site) -> Result<Vec<Router>, Error> {
        ready(site.long.iter().map(|(long, namespace)| {
            self.start_router(site, namespace, "router", &long.name(), |socket| {
                long.configuration(socket)
            })
        }))
    }

    fn start_router(
        &self,
        site: &Site,
        namespace: &Namespace,
        subcommand: &str,
        name: &str,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Router, Error> {
        let place = (&site.spawner, namespace);
        Router::start(
            place,
            (&self.programs, subcommand),
            self.folder.path(),
            name,
            configuration,
        )
    }

    /// Starts receivers and servers first, and senders once these listen.
    fn start_tools(
        &self,
        site: &Site,
        invocations: Vec<Invocation>,
        start: Instant,
    ) -> Result<Vec<(Role, Tool)>, Error> {
        let mut tools: Vec<(Role, Tool)> = Vec::with_capacity(invocations.len());
        for listening in [true, false] {
            let first = tools.len();
            for invocation in invocations.iter().filter(|o| o.role.listens() == listening) {
                let mut command = Command::new(self.programs.own());
                command.arg("traffic").args(invocation.args(start));
                let namespace = &site.namespaces[invocation.node];
                let tool = Tool::start(&site.spawner, namespace, &invocation.what, command)?;
                tools.push((invocation.role.clone(), tool));
            }
            let deadline = Wall::now() + READY_MAX;
            for (_, tool) in &mut tools[first..] {
                self.check_interrupt()?;
                tool.wait_ready(deadline)?;
            }
        }
        Ok(tools)
    }

    /// Watches the run, and carries out its events; returns an error as soon as a required process has ended.
    fn watch(
        &self,
        window: RunWindow,
        tools: &mut [(Role, Tool)],
        routers: &mut [Router],
        (layers, site): &mut (&mut [Box<dyn LabLayer>], &Site),
        prefix: &str,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let RunWindow { start, end } = window;
        let whole = end.since(start).as_secs_f64();
        loop {
            let now = clock::now();
            if now + ASK_BEFORE >= end {
                return Ok(());
            }
            self.check_interrupt()?;
            for (role, tool) in tools.iter_mut() {
                if !role.may_end_early() {
                    tool.check()?;
                }
            }
            routers.iter_mut().try_for_each(Router::check)?;
            let done = now.since(start).as_secs_f64();
            progress.update(&format!("{prefix}: {done:.0} of {whole:.0} s"));
            let mut next = (now + LOOK).min(end.before(ASK_BEFORE));
            for layer in layers.iter_mut() {
                layer.handle_timeout(window.now(), site)?;
                if let Some(event) = layer.poll_timeout() {
                    next = next.min(start + event.since(Instant::ZERO));
                }
            }
            thread::sleep(Duration::from_nanos(next.since(now).as_nanos()));
        }
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        if self.options.interrupt.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}

/// Waits until all started routers answer.
fn ready(routers: impl Iterator<Item = Result<Router, Error>>) -> Result<Vec<Router>, Error> {
    let mut routers = routers.collect::<Result<Vec<_>, _>>()?;
    routers
        .iter_mut()
        .try_for_each(|router| router.wait_ready("ports"))?;
    Ok(routers)
}

/// Time from now to the common start: enough for all tools to get ready.
fn start_margin(tools: usize) -> Span {
    Span::from_millis(400 + 20 * tools as u64)
}

/// Returns the reports of each flow group, and its datagrams that each node received.
fn collect(
    scenario: &Scenario,
    tools: Vec<(Role, Tool)>,
) -> Result<(Vec<Reported>, Arrived), Error> {
    let mut reported = vec![Reported::default(); scenario.traffic.len()];
    let mut arrived = Arrived::new();
    let deadline = Wall::now() + REPORT_MAX;
    for (role, tool) in tools {
        for line in tool.finish(deadline)? {
            let Some(traffic) = role.traffic_of(&line) else {
                continue;
            };
            if let (Role::Sink { node }, Line::Flow(flow)) = (&role, &line) {
                *arrived.entry((traffic, *node)).or_default() += flow.window_packets;
            }
            reported[traffic].add(line);
        }
    }
    Ok((reported, arrived))
}
