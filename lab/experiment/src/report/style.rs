//! The page's style sheet: one set of colours for light and one for dark.

/// Number of colours of lines: eight, a paler variant of each, and a deeper variant of each.
pub(crate) const COLOURS_MAX: usize = 3 * HUES;
const HUES: usize = 8;

/// The styles of the lines' colours.
pub(super) fn colours() -> String {
    let mixed = |n: usize| {
        let other = if n < 2 * HUES { "card" } else { "ink" };
        format!(
            "--line{n}:color-mix(in srgb,var(--line{}) 50%,var(--{other}));",
            n % HUES
        )
    };
    let mixed: String = (HUES..COLOURS_MAX).map(mixed).collect();
    let classes = (0..COLOURS_MAX)
        .map(|n| format!(".line{n}{{background:var(--line{n});--own:var(--line{n})}}"));
    format!(":root{{{mixed}}}{}", classes.collect::<String>())
}

/// Styles for light and dark, wide and narrow screens, and paper.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d232b;--faint:#d3d8de;--soft:#5c6672;--ground:#fbfbf9;\
--card:#fff;--tcp:#334e68;--udp:#8c6239;--web:#4f7a55;--line0:#0072b2;--line1:#c9560a;\
--line2:#00815e;--line3:#a94f86;--line4:#8a6d00;--line5:#2b3440;--line6:#6a51a3;--line7:#87909a;--good:#00704f;--bad:#b3380c}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--faint:#3a424c;--soft:#9aa5b1;\
--ground:#14181d;--card:#1b2027;--tcp:#4a6d94;--udp:#94693f;--web:#4f8258;--line0:#2a8fd0;\
--line1:#d9701f;--line2:#1fa37c;--line3:#cf7fb0;--line4:#c9a83a;--line5:#eef1f4;--line6:#a48be0;--line7:#9aa5b1;--good:#3fbf95;--bad:#f08a5d}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,sans-serif}\
main{max-width:76rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\
article+article{margin-top:4rem;border-top:1px solid var(--faint);padding-top:2rem}\
.kicker{margin:0;color:var(--soft);font-size:.85rem;letter-spacing:.08em;text-transform:uppercase}\
h1{margin:.2rem 0 .6rem;font-size:clamp(1.6rem,4vw,2.4rem);line-height:1.2;font-weight:650}\
h2{margin:0 0 1rem;font-size:1.25rem;line-height:1.35;font-weight:600;max-width:46rem}\
.about{margin:0;max-width:46rem;font-size:1.1rem}\
.measured,section p,footer{color:var(--soft);font-size:.9rem;max-width:46rem}\
section{margin-top:2rem;background:var(--card);border:1px solid var(--faint);border-radius:12px;\
padding:1.4rem}\
figure{margin:0}figcaption{font-weight:600;margin-bottom:.3rem}\
svg{display:block;width:100%;height:auto}\
.narrow{display:none}@media(max-width:40rem){.narrow{display:block}.wide{display:none}\
.grid svg[viewBox=\"0 0 520 280\"]{overflow:visible}.grid svg[viewBox=\"0 0 520 280\"] text{font-size:16px}}\
.grid{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr))}\
.grid figure{max-width:38rem}\
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;list-style:none;margin:0 0 1rem;padding:0;\
font-size:.9rem}\
.legend .unit{color:var(--soft)}\
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.45em}\
.swatch.tcp{background:var(--tcp)}.swatch.udp{background:var(--udp)}.swatch.web{background:var(--web)}\
.scroll{overflow-x:auto;background:linear-gradient(to right,var(--card) 30%,transparent) left/2.5rem 100% no-repeat local,\
linear-gradient(to left,var(--card) 30%,transparent) right/2.5rem 100% no-repeat local,\
linear-gradient(to right,var(--faint),transparent) left/.9rem 100% no-repeat,\
linear-gradient(to left,var(--faint),transparent) right/.9rem 100% no-repeat}\
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{padding:.4rem .45rem;text-align:right;white-space:nowrap;vertical-align:top}\
thead th{border-bottom:2px solid var(--faint);vertical-align:bottom;font-weight:600}\
tbody tr{border-bottom:1px solid var(--faint)}\
th[scope=row]{text-align:left;font-weight:600}\
td small{letter-spacing:-.02em}small{display:block;font-weight:400;color:var(--soft);font-size:.8em}\
tr.paper td,tr.paper th{color:var(--soft);font-weight:400}\
tr:has(+tr.paper){border-bottom:none}\
td.flow{text-align:left;font-family:ui-monospace,monospace;font-size:.85em}\
.hogs thead th:nth-child(2){text-align:left}\
footer{margin-top:2rem}footer ul{padding-left:1.2rem}\
code{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}\
.line{display:inline-block;width:1.4em;height:3px;border-radius:2px;margin-right:.45em;\
vertical-align:middle}\
.swatch.ink{background:var(--ink)}\
.swatch.hollow{background:none;border:2px solid var(--own)}\
.disturbed{border-left:4px solid var(--bad);padding-left:.8rem;max-width:46rem}\
nav{margin-top:.8rem;font-size:.9rem}nav ul{list-style:none;padding:0;margin:.4rem 0;columns:2 22rem}\
nav li{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}nav .article{font-weight:600}\
table.gain{width:auto;margin-bottom:1rem}.gain th,.gain td{padding-left:1.3rem}.gain th[scope=row],.gain .word{padding-left:0}\
@media(max-width:40rem){.gain th,.gain td{white-space:normal;padding-left:.5rem}}\
.plots{padding-left:1.2rem;font-size:.9rem}summary{cursor:pointer}a{color:var(--line0)}\
section p.caption{margin:1.2rem 0 .4rem}\
.word,thead th.word{text-align:left}td.agrees{color:var(--good);font-weight:600}\
td.differs{color:var(--bad);font-weight:600}\
tr.same th[scope=row]{color:transparent}\
.causes{margin:1rem 0 0;padding-left:1.2rem;color:var(--soft);font-size:.9rem;max-width:46rem}\
@media print{body{background:none}section{break-inside:avoid;border-color:#ccc}}";
