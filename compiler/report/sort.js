// Sorts a table by the column whose heading is clicked: upwards, and downwards at the second click. What is unknown comes last.
"use strict";

function sortBy(head) {
  const body = head.closest("table").tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const place = head.cellIndex;
  const value = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
  const compared = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b) * (up ? 1 : -1);
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    return a === "" || b === "" ? (a === "") - (b === "") : compared(a, b);
  });
  body.append(...rows);
}

for (const head of document.querySelectorAll("th.sorts")) head.addEventListener("click", () => sortBy(head));
