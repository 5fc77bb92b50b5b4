import { type ComponentProps, lazy, Suspense } from 'react';
import { Name } from './bits.tsx';
import styles from './page.module.css';
import { colorOf } from './series.ts';

// Charts are larger than everything else: they load after the figures.
const SeriesChart = lazy(async () => ({ default: (await import('./SeriesChart.tsx')).SeriesChart }));

/** A chart with its legend. Its data is also in a table of the page. */
export function LazyChart(props: ComponentProps<typeof SeriesChart>) {
  const { series } = props.chart;
  return (
    <>
      <div className={styles.chart}>
        <Suspense fallback={null}>
          <SeriesChart {...props} />
        </Suspense>
      </div>
      <ul className={styles.legend}>
        {series.map((name, i) => (
          <li key={name}>
            <svg viewBox="0 0 10 10" aria-hidden="true">
              <rect width="10" height="10" rx="2" fill={colorOf(i)} />
            </svg>
            <Name text={name} />
          </li>
        ))}
      </ul>
    </>
  );
}
