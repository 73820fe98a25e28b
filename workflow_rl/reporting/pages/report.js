"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");

// The page's own colours, whatever the scheme.
function themed(layout) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = {gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line")};
  const axes = Object.keys(layout).filter((key) => /^[xy]axis/.test(key));
  return {
    ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: colour("--text"), size: 12, family: "system-ui, sans-serif"},
    hoverlabel: {bgcolor: colour("--panel"), bordercolor: colour("--line"), font: {color: colour("--text")}},
    ...Object.fromEntries(axes.map((key) => [key, {...layout[key], ...axis}])),
  };
}

function draw() {
  for (const chart of document.querySelectorAll(".chart")) {
    const {data, layout} = JSON.parse(chart.querySelector("script").textContent);
    Plotly.react(chart.querySelector(".plot"), data, themed(layout), {displayModeBar: false, responsive: true});
  }
}

draw();
dark.addEventListener("change", draw);
