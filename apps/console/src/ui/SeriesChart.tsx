import {
  Area,
  AreaChart,
  Bar,
  BarChart,
  CartesianGrid,
  ReferenceLine,
  ResponsiveContainer,
  XAxis,
  YAxis,
} from 'recharts';
import { type Chart, colorOf, type Point } from './series.ts';

/** Series over time, stacked: bars of each bucket, or what they add up to. A table beside it has the figures. */
export function SeriesChart({
  chart: { series, points },
  label,
  cumulative,
  format,
  timeLabel,
  limit,
}: {
  chart: Chart;
  label: string;
  cumulative: boolean;
  format: (value: number) => string;
  timeLabel: (at: string) => string;
  limit?: number | undefined;
}) {
  const axes = (
    <>
      <CartesianGrid vertical={false} stroke="var(--line)" />
      <XAxis
        dataKey="at"
        tickFormatter={timeLabel}
        tick={{ fill: 'var(--muted)', fontSize: 12 }}
        stroke="var(--line-strong)"
        minTickGap={24}
      />
      <YAxis
        tickFormatter={format}
        tick={{ fill: 'var(--muted)', fontSize: 12 }}
        stroke="none"
        width={80}
        domain={limit === undefined ? [0, 'auto'] : [0, (most: number) => Math.max(most, limit) * 1.05]}
      />
      {limit !== undefined && <ReferenceLine y={limit} stroke="var(--bad)" strokeDasharray="4 4" />}
    </>
  );
  const common = { data: points as Point[], accessibilityLayer: false, margin: { top: 8, right: 8 } };
  const drawn = series.map((name, i) => ({
    key: name,
    name,
    stackId: 'all',
    fill: colorOf(i),
    isAnimationActive: false,
    dataKey: ({ values }: Point) => values[i] ?? 0,
  }));
  return (
    <ResponsiveContainer>
      {cumulative ? (
        <AreaChart {...common} role="img" aria-label={label}>
          {axes}
          {drawn.map(({ key, fill, ...area }) => (
            <Area key={key} {...area} stroke={fill} fill={fill} fillOpacity={0.6} />
          ))}
        </AreaChart>
      ) : (
        <BarChart {...common} maxBarSize={64} role="img" aria-label={label}>
          {axes}
          {drawn.map(({ key, ...bar }) => (
            <Bar key={key} {...bar} />
          ))}
        </BarChart>
      )}
    </ResponsiveContainer>
  );
}
