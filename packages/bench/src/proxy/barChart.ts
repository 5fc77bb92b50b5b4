import type { Figure } from '../shared/figures.ts';

export interface ChartBar {
  readonly label: string;
  readonly value: Figure;
  readonly isOurs: boolean;
}

export interface BarChart {
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly ChartBar[];
  /** Decimal places of the values. */
  readonly digits: number;
}

const WIDTH = 760;
const LABEL_WIDTH = 300;
const VALUE_WIDTH = 150;
const ROW = 26;
const TOP = 44;

/** Draws horizontal bars of the medians, with a line from minimum to maximum, as SVG for light and dark pages. */
export function barChartSvg({ title, unit, bars, digits }: BarChart): string {
  const max = Math.max(...bars.map(({ value }) => value.max), Number.MIN_VALUE);
  const scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / max;
  const height = TOP + bars.length * ROW + 10;
  const rows = bars.map(({ label, value, isOurs }, at) => {
    const y = TOP + at * ROW;
    const x = (amount: number) => round(LABEL_WIDTH + Math.max(0, amount) * scale);
    const text = value.median.toLocaleString('en-US', {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    return `  <text x="${LABEL_WIDTH - 10}" y="${y + 16}" text-anchor="end">${escaped(label)}</text>
  <rect x="${LABEL_WIDTH}" y="${y + 3}" width="${round(x(value.median) - LABEL_WIDTH)}" height="18" rx="2" class="${isOurs ? 'ours' : 'other'}"/>
  <path d="M${x(value.min)} ${y + 12}H${x(value.max)}" class="range"/>
  <text x="${x(value.max) + 8}" y="${y + 16}">${text}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">
  <style>
    text { font: 13px system-ui, sans-serif; fill: #57606a }
    .title { font-weight: 600; font-size: 15px }
    .ours { fill: #2f81f7 }
    .other { fill: #8c959f }
    .range { stroke: #57606a; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } .range { stroke: #c9d1d9 } }
  </style>
  <text x="10" y="24" class="title">${escaped(title)}, ${escaped(unit)}</text>
${rows.join('\n')}
</svg>
`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
