// The numbers of the overview, every two seconds, and the last five minutes of them as a chart.
"use strict";
(() => {
  const SHOWN = 150;
  const box = document.querySelector("#chart");
  const data = [[], [], []];
  let chart = null;
  const draw = () => {
    if (chart) chart.destroy();
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    chart = new uPlot(
      {
        width: box.clientWidth,
        height: 200,
        series: [
          {},
          { label: "publications", stroke: colour("--mark"), width: 2 },
          { label: "notifications", stroke: colour("--live"), width: 2, dash: [6, 3] },
        ],
        axes: [axis, axis],
        scales: { y: { range: (u, low, high) => [0, Math.max(1, high * 1.1)] } },
      },
      data,
      box,
    );
  };
  const show = (found) => {
    for (const [name, value] of Object.entries(found.cards)) {
      const cell = document.querySelector(`#n-${name}`);
      if (cell) cell.textContent = value;
    }
    const trouble = document.querySelector("#trouble");
    trouble.hidden = !found.trouble;
    trouble.textContent = found.trouble || "";
    document.querySelector("#lag").replaceChildren(
      ...Object.entries(found.by_partition).map(([name, each]) => {
        const row = document.createElement("tr");
        const head = document.createElement("th");
        head.scope = "row";
        head.textContent = name;
        row.append(head, ...each.map((n) => Object.assign(document.createElement("td"), { className: "number", textContent: n })));
        return row;
      }),
    );
    data[0].push(Date.now() / 1000);
    data[1].push(found.publications);
    data[2].push(found.notifications);
    for (const each of data) if (each.length > SHOWN) each.shift();
    chart.setData(data);
  };
  const step = async () => {
    try {
      const answer = await fetch(place("/console/overview.json"));
      if (answer.ok) show(await answer.json());
      else throw new Error((await answer.json()).detail);
    } catch (error) {
      const trouble = document.querySelector("#trouble");
      trouble.hidden = false;
      trouble.textContent = `the gateway does not answer: ${error.message}`;
    }
    setTimeout(step, 2000);
  };
  draw();
  step();
  addEventListener("resize", () => chart.setSize({ width: box.clientWidth, height: 200 }));
  document.addEventListener("theme", draw);
})();
