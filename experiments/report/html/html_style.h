// The style sheet of the report page: one variable per role, redefined for dark schemes. The
// baseline is blue and round, the candidate orange and square; no meaning depends on colour alone.
#pragma once

namespace assay {

inline constexpr const char* kHtmlStyle = R"css(
:root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1a1d21;--muted:#59616b;--line:#d5d9df;
--a:#0072b2;--b:#c04f00;--band:#8a93a033;--claim:#b8860b;--good:#17692f;--mixed:#8a5a00;--bad:#b3261e;--neutral:#4a525c}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1d2125;--ink:#e8eaed;--muted:#a3abb5;--line:#363c44;
--a:#56b4e9;--b:#f0893c;--band:#a3abb533;--claim:#e3b341;--good:#6fcf8a;--mixed:#e3b341;--bad:#ff8a80;--neutral:#b4bcc6}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 10px}h3{font-size:16px;margin:0}
p{margin:6px 0}.muted{color:var(--muted)}.lead{font-size:16px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 10px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:anywhere;min-width:6em}td.name{min-width:8em;overflow-wrap:break-word}
th{font-weight:600;color:var(--muted);font-size:13px}
td.num,th.num{text-align:right;white-space:nowrap;min-width:0}
.wide{overflow-x:auto}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;margin:14px 0}
.card header{display:flex;gap:12px;align-items:baseline;flex-wrap:wrap}
.verdict{font-weight:700;overflow-wrap:break-word}.good{color:var(--good)}.mixed{color:var(--mixed)}.bad{color:var(--bad)}.neutral{color:var(--neutral)}
.tag{font-size:12px;border:1px solid var(--line);border-radius:4px;padding:0 6px;color:var(--muted);white-space:nowrap}
ul{margin:6px 0;padding-left:20px}li{overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
p{overflow-wrap:break-word}pre,code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px;overflow-x:auto;margin:6px 0}
details{margin:8px 0}summary{cursor:pointer;color:var(--muted)}
svg{width:100%;height:auto;display:block;margin-top:8px}
svg text{fill:var(--ink);font:13px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
svg text.muted{fill:var(--muted)}svg text.small{font-size:11.5px}
.narrow svg text{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}.card .narrow svg text{stroke:var(--card)}
svg .grid{stroke:var(--line);stroke-width:1}svg .zero{stroke:var(--ink);stroke-width:1.6}
svg .band{fill:var(--band)}svg .claimed{fill:none;stroke:var(--claim);stroke-width:1.8;stroke-dasharray:5 3}
svg line.b{stroke:var(--b);stroke-width:2.2}svg rect.b{fill:var(--b)}
svg line.control{stroke:var(--muted);stroke-width:2}svg circle.control{fill:var(--muted)}
svg .fall{fill:var(--good)}svg .rise{fill:var(--bad)}svg .whole{fill:var(--b)}svg .whisker{stroke:var(--ink);stroke-width:1.3}
svg .pair{fill:var(--b);fill-opacity:.45}svg .interval{fill:var(--b);fill-opacity:.14}svg .excluded{stroke:var(--muted);stroke-width:1.3}
svg .curve{fill:none;stroke:var(--ink);stroke-width:2.2}svg .seed{stroke-width:1;stroke-opacity:.35}
svg .c0{stroke:var(--a)}svg .c1{stroke:var(--b);stroke-dasharray:7 3}svg .c2{stroke:var(--good);stroke-dasharray:2 3}
svg .c3{stroke:var(--claim);stroke-dasharray:10 3 2 3}svg .c4{stroke:var(--muted);stroke-dasharray:4 4}
.key{display:inline-block;width:22px;height:11px;margin:0 5px 0 12px;vertical-align:-1px}
.key.band{background:var(--band)}.key.claimed{border:1.8px dashed var(--claim)}.key.point{width:10px;height:10px;background:var(--b)}
.wide svg{min-width:680px}.narrow{display:none}
@media screen and (max-width:1000px){table.many th.num,table.many td.num{white-space:normal;overflow-wrap:normal}}
@media screen and (max-width:740px){.wide.has-narrow{display:none}.narrow{display:block}}
@media screen and (max-width:700px){main{padding:16px 14px 40px}dl{grid-template-columns:1fr}dt{margin-top:6px}
table.cards thead{display:none}table.cards,table.cards tbody,table.cards tr,table.cards td{display:block}
table.cards tr{border:1px solid var(--line);border-radius:8px;padding:8px 12px;margin:8px 0}
table.cards td{border:0;padding:1px 0;display:grid;grid-template-columns:10em 1fr;text-align:left;white-space:normal;min-width:0}
table.cards td::before{content:attr(data-title);color:var(--muted)}table.cards td:empty{display:none}
table.cards td.name{display:block;font-weight:600}table.cards td.name::before{display:none}}
@media print{body{font-size:11px}main{max-width:none;padding:0}h2{margin:18px 0 6px}h2,h3,header,.intro{break-after:avoid}
svg,tr,li,p{break-inside:avoid}details:not([open]),.records:not(:has(details[open])){display:none}
.forest svg{max-height:none}.card svg{max-height:1.2in}.card{padding:8px 10px;margin:8px 0}
.wide{overflow:visible}.wide svg{min-width:0}td,th{padding:3px 8px 3px 0;min-width:4em}
td.num,th.num{white-space:normal;overflow-wrap:normal}td.name{min-width:6em}}
)css";

} // namespace assay
