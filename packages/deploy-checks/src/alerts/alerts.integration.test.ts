import { readFile } from 'node:fs/promises';
import { testRun } from '@weighbridge/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { alertedMetrics, documentedSeries, FOREIGN, TARGET_LABELS } from '../knownMetrics.ts';
import { readQuery } from '../promql.ts';
import { promtool } from '../promtool.ts';
import { read } from '../repository.ts';
import type { AlertCase } from './alertCase.ts';
import { ALERTS_FILE, type Alert, readAlerts } from './alertRules.ts';
import { CONTROL_STREAM_CASES } from './controlStreamCases.ts';
import { POD_CASES } from './podCases.ts';
import { writeRuleTests } from './ruleTests.ts';
import { TRAFFIC_CASES } from './trafficCases.ts';
import { USAGE_CASES } from './usageCases.ts';

// The time-out allows for a download of promtool.
const CASES = [...CONTROL_STREAM_CASES, ...USAGE_CASES, ...TRAFFIC_CASES, ...POD_CASES];

const metricOf = (series: string) => series.replace(/\{.*/s, '');

/** Returns a message for each alert without a case, and for each metric that a quiet case lacks. */
function coverageErrors(alerts: readonly Alert[], cases: readonly AlertCase[]): string[] {
  return alerts.flatMap(({ alert, expr }) => {
    const own = cases.filter((one) => one.alert === alert);
    if (own.length === 0) return [`${alert} has no case`];
    const queried = new Set(readQuery(expr).selectors.map(({ metric }) => metric));
    // Without the metrics that it reads, an alert is always quiet.
    return own.flatMap(({ quiet }) => {
      const given = Object.keys(quiet.series).map(metricOf);
      return [...queried]
        .filter((metric) => !given.includes(metric))
        .map((metric) => `the quiet case of ${alert} has no ${metric}`);
    });
  });
}

const checkRules = async (alerts: readonly Alert[], cases: readonly AlertCase[]) =>
  await promtool('test', 'rules', ...(await writeRuleTests(testRun().folder, alerts, cases)));

describe('the alerts', () => {
  let alerts: Alert[];
  beforeAll(async () => {
    alerts = await readAlerts();
  });

  it('are valid Prometheus rules with unique names', async () => {
    const { ok, output } = await promtool('check', 'rules', ALERTS_FILE);
    expect(output).toContain(`SUCCESS: ${alerts.length} rules found`);
    expect(ok).toBe(true);
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
    expect(alerts.length).toBeGreaterThan(40);
  });

  it('have one case each, and its quiet series include every metric that they read', () => {
    expect(coverageErrors(alerts, CASES)).toEqual([]);
    expect(CASES.map(({ alert }) => alert).sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });

  it('are reported if they have no case, or one without their metrics', () => {
    const [alert] = alerts as [Alert];
    const [own] = CASES.filter((one) => one.alert === alert.alert) as [AlertCase];
    expect(coverageErrors([alert], [])).toEqual([`${alert.alert} has no case`]);
    const empty = { ...own, quiet: { series: { up: '1+0x9' }, at: '4m' } };
    expect(coverageErrors([alert], [empty])).toEqual([
      'the quiet case of WeighbridgeViewStale has no weighbridge_view_state',
    ]);
  });

  it('fire under their condition with the expected description, and not otherwise', async () => {
    const { ok, output } = await checkRules(alerts, CASES);
    expect(ok, output).toBe(true);
  });

  it('fail the rule tests if they stay quiet, or fire, in the wrong case', async () => {
    const [own] = CASES as [AlertCase];
    const silent = { ...own, fires: { ...own.fires, series: own.quiet.series } };
    const loud = { ...own, quiet: own.fires };
    for (const wrong of [silent, loud]) expect((await checkRules(alerts, [wrong])).ok).toBe(false);
  });

  it('are tested on series that the apps export, with exactly their labels', async () => {
    const known = await documentedSeries();
    const isTargetLabel = (label: string) => TARGET_LABELS.includes(label);
    for (const { alert, fires, quiet } of CASES) {
      for (const series of [...Object.keys(fires.series), ...Object.keys(quiet.series)]) {
        const metric = metricOf(series);
        const labels = [...series.matchAll(/(\w+)="/g)].map(([, label = '']) => label);
        const own = labels.filter((label) => !isTargetLabel(label)).sort();
        expect([alert, metric, own]).toEqual([
          alert,
          metric,
          [...(known.get(metric) ?? FOREIGN.get(metric) ?? ['no such metric'])].sort(),
        ]);
      }
    }
  });

  it('have a runbook entry each: meaning, what to look at, what to do, with commands', async () => {
    const runbook = await read('docs/runbook.md');
    const entries = new Map(
      runbook
        .split(/^### /m)
        .slice(1)
        .map((entry) => [entry.slice(0, entry.indexOf('\n')).trim(), entry]),
    );
    expect([...entries.keys()].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
    for (const { alert, labels, annotations } of alerts) {
      const entry = entries.get(alert) ?? '';
      for (const part of ['**Means.**', '**Look at.**', '**Do.**']) expect(entry, alert).toContain(part);
      expect(entry, alert).toMatch(/```sh[^\n]*\n(.|\n)+```/);
      expect(annotations.runbook_url, alert).toMatch(
        new RegExp(`/docs/runbook\\.md#${alert.toLowerCase()}$`),
      );
      expect(['critical', 'warning'], alert).toContain(labels.severity);
      expect(annotations.summary, alert).toMatch(/\.$/);
    }
  });

  it('read every metric that has an alert according to docs/metrics.md', async () => {
    const queried = alerts.flatMap(({ expr }) => readQuery(expr).selectors.map(({ metric }) => metric));
    const alerted = await alertedMetrics();
    expect(alerted.length).toBeGreaterThan(7);
    expect(alerted.filter((metric) => !queried.includes(metric))).toEqual([]);
  });

  it('use only the namespace and pod names that the chart replaces', async () => {
    const text = await readFile(ALERTS_FILE, 'utf8');
    expect(new Set(text.match(/namespace="[^"]*"/g))).toEqual(new Set(['namespace="weighbridge"']));
    expect(new Set(text.match(/pod=~"[^"]*"/g))).toEqual(
      new Set(['pod=~"weighbridge-(control-plane|data-plane|metering)-.*"']),
    );
  });
});
