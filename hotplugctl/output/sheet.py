"""How the page of a diagnosis looks: on a wide screen and a narrow one, light, dark, and on A4."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f5f2; --card: #ffffff; --ink: #1d2127; --quiet: #56606b; --line: #dcdfe3; --soft: #f0f1f3;
  --fault: #a8231b; --fault-soft: #fcebe9; --ok: #17683c; --ok-soft: #e6f4ec; --unknown: #6b4a00;
  --unknown-soft: #fbf1d6; --link: #1f5fa8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #13161a; --card: #1b1f25; --ink: #e7eaee; --quiet: #a4aeb9; --line: #353c45; --soft: #242a31;
    --fault: #ff9a90; --fault-soft: #3b1c1a; --ok: #80d6a6; --ok-soft: #16301f; --unknown: #eec75f;
    --unknown-soft: #332a12; --link: #8bbcf5;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
header, main, footer, nav { max-width: 71rem; margin: 0 auto; padding: 0 1.5rem; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86em; }
code { unicode-bidi: isolate; }
a { color: var(--link); }
h1, h2, h3 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.6rem; margin: .6rem 0 .4rem; font-weight: 650; }
h2 { font-size: 1.1rem; margin: 0 0 .8rem; font-weight: 650; }
h3 { font-size: .95rem; margin: 1.3rem 0 .5rem; font-weight: 650; }
p { margin: 0 0 .6rem; }
ul, ol { margin: 0; padding: 0; list-style: none; }
.quiet, .none, .legend, .facts { color: var(--quiet); }
.none { font-style: italic; margin: .5rem 0 0; }
.small { font-size: .86rem; }
.top { padding-top: 1.1rem; padding-bottom: .6rem; color: var(--quiet); font-size: .9rem; }
.top strong { color: var(--ink); }
nav { font-size: .88rem; padding-bottom: .9rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: 0 0 1rem;
  padding: 1.2rem 1.4rem; }

.verdict { border-left: 7px solid var(--tone); background: var(--tone-soft); }
.tone-fault { --tone: var(--fault); --tone-soft: var(--fault-soft); }
.tone-healthy { --tone: var(--ok); --tone-soft: var(--ok-soft); }
.tone-unknown { --tone: var(--unknown); --tone-soft: var(--unknown-soft); }
.word { display: inline-flex; align-items: center; gap: .45rem; color: var(--tone); font-weight: 700;
  letter-spacing: .07em; font-size: .95rem; }
.word .sign { stroke: var(--tone); }
.lead { font-size: 1.04rem; max-width: 62rem; }
dl { margin: .9rem 0 0; display: flex; flex-wrap: wrap; gap: .7rem 2.2rem; }
dt { font-size: .78rem; color: var(--quiet); }
dd { margin: 0; font-weight: 550; }
.act { border-left: 7px solid var(--link); }
.act p { font-size: 1.04rem; margin: 0; max-width: 62rem; }
.repair { display: inline-block; border: 1px solid var(--link); color: var(--link); border-radius: 5px;
  padding: 0 .5rem; font-size: .86rem; font-weight: 600; margin-right: .4rem; }

.sign { fill: none; stroke: var(--quiet); stroke-width: 2.2; stroke-linecap: round; stroke-linejoin: round;
  vertical-align: -.14em; }
.sign.ok { stroke: var(--ok); } .sign.fault { stroke: var(--fault); } .sign.unknown { stroke: var(--unknown); }
.fault > .state, strong.fault { color: var(--fault); } .ok > .state { color: var(--ok); }
.unknown > .state { color: var(--unknown); }

.lines > li { padding: .5rem 0; border-top: 1px solid var(--line); }
.lines > li:first-child { border-top: 0; padding-top: 0; }
.where { color: var(--quiet); font-size: .84rem; display: block; }
.lines code.text { display: block; white-space: pre-wrap; max-height: 15em; overflow: auto; }

.layers { display: grid; grid-template-columns: repeat(4, 1fr); gap: .7rem; }
.layers li, .walk li { border: 1px solid var(--line); border-top-width: 4px; border-radius: 7px;
  padding: .6rem .75rem; }
.layers .fault, .walk .fault { border-color: var(--fault); background: var(--fault-soft); }
.layers .ok, .walk .ok { border-top-color: var(--ok); }
.name { font-weight: 650; display: block; }
.state { font-size: .86rem; font-weight: 650; }
.because { font-size: .86rem; color: var(--quiet); display: block; margin-top: .15rem; }
.fault .because { color: var(--ink); }
.walk { display: grid; grid-template-columns: repeat(6, 1fr); gap: .55rem; counter-reset: step; }
.walk li { padding: .45rem .6rem; counter-increment: step; }
.walk .name::before { content: counter(step) ". "; color: var(--quiet); font-weight: 400; }
.walk .because { font-size: .8rem; }

.tree .tree { margin-left: 1.1rem; padding-left: 1.1rem; border-left: 2px solid var(--line); }
.tree .tree > li { position: relative; padding-top: .55rem; }
.tree .tree > li::before { content: ""; position: absolute; left: -1.1rem; top: 1.75rem; width: .95rem;
  border-top: 2px solid var(--line); }
.spot { border: 1px solid var(--line); border-radius: 7px; padding: .4rem .8rem; display: inline-block;
  background: var(--soft); max-width: 100%; }
.spot.fault { border: 2px solid var(--fault); background: var(--fault-soft); }
.spot.fault strong { color: var(--fault); }
.spot .facts { display: block; font-size: .86rem; }
.kind { font-size: .84rem; color: var(--quiet); }
.others { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .3rem .9rem;
  font-size: .84rem; margin-top: .5rem; }
.others li { border-left: 3px solid var(--line); padding: .05rem 0 .05rem .6rem; }

.frame { padding: .2rem .5rem 0; }
svg.timeline { display: block; overflow: visible; }
svg.timeline text { fill: var(--quiet); font-size: 11px; }
svg.timeline .lane { fill: var(--ink); font-size: 12px; font-weight: 600; }
.track { stroke: var(--line); stroke-width: 2; } .axis { stroke: var(--quiet); stroke-width: 1; }
.first { stroke: var(--fault); stroke-width: 1; stroke-dasharray: 3 4; opacity: .7; }
svg.timeline .gap, svg.timeline .number, svg.timeline .middle { text-anchor: middle; }
svg.timeline .end { text-anchor: end; }
svg.timeline .span { font-style: italic; }
.narrow { display: none; }
.cut { fill: none; stroke: var(--quiet); stroke-width: 1.4; }
.mark { stroke-width: 1.6; vertical-align: -.15em; }
.mark.proof { fill: var(--fault); stroke: var(--card); }
.mark.trouble { fill: var(--unknown); stroke: var(--card); }
.mark.step { fill: var(--card); stroke: var(--quiet); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .84rem; margin: .8rem 0; }
.moments li { display: grid; grid-template-columns: 3.4rem 5.4rem minmax(0, 1fr) 17rem; gap: 0 .9rem; padding: .35rem 0;
  border-top: 1px solid var(--line); font-size: .9rem; }
.moments .at { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.moments .no { color: var(--quiet); white-space: nowrap; font-variant-numeric: tabular-nums; }
.moments .proves { background: var(--fault-soft); box-shadow: -.5rem 0 0 var(--fault-soft),
  .5rem 0 0 var(--fault-soft); }
.moments .where bdi { display: inline-block; margin-right: .8rem; }
.means { display: block; color: var(--quiet); font-size: .86rem; }
.proves .means { color: var(--ink); }

.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-size: .8rem; color: var(--quiet); font-weight: 550; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td code { white-space: nowrap; }
pre { margin: 0; white-space: pre-wrap; background: var(--soft); border-radius: 7px; padding: .8rem 1rem; }
pre + pre, pre + p { margin-top: .6rem; }
footer { color: var(--quiet); font-size: .84rem; padding-bottom: 2rem; }

@media screen and (max-width: 760px) {
  header, main, footer, nav { padding-left: .8rem; padding-right: .8rem; }
  section { padding: 1rem .9rem; }
  h1 { font-size: 1.3rem; }
  .layers { grid-template-columns: 1fr; }
  .walk { grid-template-columns: 1fr; gap: 0; }
  .walk li, .layers li { border-width: 1px 1px 1px 4px; }
  .walk li { border-radius: 0; margin-top: -1px; }
  .layers .fault, .walk .fault { border-color: var(--fault); }
  .layers .ok, .walk .ok { border-color: var(--line); border-left-color: var(--ok); }
  .moments li { grid-template-columns: 1fr auto; }
  .moments .what, .moments .where { grid-column: 1 / -1; }
  .tree .tree { margin-left: .35rem; padding-left: .7rem; }
  .tree .tree > li::before { left: -.7rem; width: .6rem; }
  .others { grid-template-columns: 1fr; }
  .wide { display: none; } .narrow { display: inline; }
  dl { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .6rem 1rem; }
  dl > :first-child { grid-column: 1 / -1; }
  table, tbody, tr, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  td { border: 0; padding: .05rem 0; }
  td code { white-space: normal; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
@page { size: A4; margin: 14mm; }
@media print {
  :root {
    --page: #fff; --card: #fff; --ink: #000; --quiet: #444; --line: #bbb; --soft: #fff; --fault: #9a1b14;
    --fault-soft: #fff; --ok: #14532d; --ok-soft: #fff; --unknown: #5a3e00; --unknown-soft: #fff; --link: #000;
  }
  html { font-size: 12px; } body { font-size: 12px; } nav { display: none; }
  header, main, footer { max-width: none; padding: 0; }
  section { border-radius: 0; border-width: 1px 0 0; padding: .5rem 0; }
  .verdict, .act { border-left-width: 5px; padding-left: .8rem; }
  .moments li { grid-template-columns: 3.4rem 5.4rem minmax(0, 1fr) 14rem; }
  .others { grid-template-columns: repeat(3, 1fr); }
  li, tr, .spot, dl, svg.timeline { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .lines code.text { max-height: none; overflow: visible; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
