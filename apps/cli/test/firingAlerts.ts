import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findPromtool, testRun } from '@weighbridge/testing';
import { stringify } from 'yaml';

const RULES = fileURLToPath(
  new URL('../../../deploy/helm/weighbridge/alerts/weighbridge.yaml', import.meta.url),
);
const COUNTED = /^\w+_(total|bucket|sum|count)\{/;
/** Longer than any of these alerts waits. */
const HELD_MINUTES = 30;

/** The `/metrics` texts of the pods, by pod name. */
export type Scrapes = Readonly<Record<string, string>>;

/**
 * The alerts of the chart that fire in Prometheus' rules engine if the pods serve `before` for some minutes and then `now`
 * for half an hour, with counters that rise each minute by their difference. The series are the apps' real metrics.
 */
export async function firingAlerts(
  before: Scrapes,
  now: Scrapes,
  names: readonly string[],
): Promise<string[]> {
  const earlier = seriesOf(before);
  const inputs = [...seriesOf(now)].map(([series, value]) => {
    const was = earlier.get(series);
    // Events go on at the same rate. A restarted app counts from 0.
    const grown = Number(value) - Number(was ?? 0);
    const more = COUNTED.test(series) ? (grown < 0 ? Number(value) : grown) : 0;
    return {
      series,
      values: `${was === undefined ? '_x10' : `${was}+0x9`} ${value}+${more}x${HELD_MINUTES}`,
    };
  });
  const file = join(await mkdtemp(join(testRun().folder, 'alerts-')), 'tests.yaml');
  await writeFile(
    file,
    stringify({
      rule_files: [RULES],
      evaluation_interval: '1m',
      tests: [
        {
          interval: '1m',
          input_series: inputs,
          alert_rule_test: names.map((alertname) => ({
            eval_time: `${HELD_MINUTES}m`,
            alertname,
            exp_alerts: [],
          })),
        },
      ],
    }),
  );
  const promtool = await findPromtool(join(testRun().folder, 'cache'));
  // promtool is told to expect no alert, and reports each that fires.
  const output = await promisify(execFile)(promtool, ['test', 'rules', file]).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`,
  );
  if (!/SUCCESS|alertname: /.test(output)) throw new Error(output);
  return [...new Set([...output.matchAll(/alertname: ?(\w+)/g)].map(([, name = '']) => name))].sort();
}

/** The samples of a text in promtool's format, with the labels that Prometheus adds. */
function seriesOf(scrapes: Scrapes): Map<string, string> {
  return new Map(
    Object.entries(scrapes).flatMap(([pod, text]) =>
      [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(
        ([, name, labels, value = '']): [string, string] => [
          `${name}{namespace="weighbridge",pod="weighbridge-${pod}"${labels ? `,${labels}` : ''}}`,
          /^nan$/i.test(value) ? 'NaN' : value,
        ],
      ),
    ),
  );
}
