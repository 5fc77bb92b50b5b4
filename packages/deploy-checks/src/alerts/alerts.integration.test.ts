import { readFile } from 'node:fs/promises';
import { testRun } from '@weighbridge/testing';
import { beforeAll, describe, expect, it, vi } from 'vitest';
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

// A promtool that has to be downloaded first takes its time.
vi.setConfig({ testTimeout: 240_000 });

const CASES = [...CONTROL_STREAM_CASES, ...USAGE_CASES, ...TRAFFIC_CASES, ...POD_CASES];

const metricOf = (series: string) => series.replace(/\{.*/s, '');

/** What is wrong with how the cases cover the alerts, in words. */
function uncovered(alerts: readonly Alert[], cases: readonly AlertCase[]): string[] {
  return alerts.flatMap(({ alert, expr }) => {
    const own = cases.filter((one) => one.alert === alert);
    if (own.length === 0) return [`${alert} has no case`];
    const asked = new Set(readQuery(expr).selectors.map(({ metric }) => metric));
    // A quiet case without what the alert looks at would be quiet whatever the alert says.
    return own.flatMap(({ quiet }) => {
      const given = Object.keys(quiet.series).map(metricOf);
      return [...asked]
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

  it('are rules as Prometheus takes them, each of its own name', async () => {
    const { ok, output } = await promtool('check', 'rules', ALERTS_FILE);
    expect(output).toContain(`SUCCESS: ${alerts.length} rules found`);
    expect(ok).toBe(true);
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
    expect(alerts.length).toBeGreaterThan(40);
  });

  it('have a case each in which they fire and one in which they do not, of what they look at', () => {
    expect(uncovered(alerts, CASES)).toEqual([]);
    expect(CASES.map(({ alert }) => alert).sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });

  it('would be told of where they had none', () => {
    const [alert] = alerts as [Alert];
    const [own] = CASES.filter((one) => one.alert === alert.alert) as [AlertCase];
    expect(uncovered([alert], [])).toEqual([`${alert.alert} has no case`]);
    const empty = { ...own, quiet: { series: { up: '1+0x9' }, at: '4m' } };
    expect(uncovered([alert], [empty])).toEqual([
      'the quiet case of WeighbridgeViewStale has no weighbridge_view_state',
    ]);
  });

  it('fire where their condition is there, saying what it is, and only there', async () => {
    const { ok, output } = await checkRules(alerts, CASES);
    expect(ok, output).toBe(true);
  });

  it('would be told of where they did not, or where they did in vain', async () => {
    const [own] = CASES as [AlertCase];
    const silent = { ...own, fires: { ...own.fires, series: own.quiet.series } };
    const loud = { ...own, quiet: own.fires };
    for (const wrong of [silent, loud]) expect((await checkRules(alerts, [wrong])).ok).toBe(false);
  });

  it('are tried on series as the apps have them, with just their labels', async () => {
    const known = await documentedSeries();
    const scraped = (label: string) => TARGET_LABELS.includes(label);
    for (const { alert, fires, quiet } of CASES) {
      for (const series of [...Object.keys(fires.series), ...Object.keys(quiet.series)]) {
        const metric = metricOf(series);
        const labels = [...series.matchAll(/(\w+)="/g)].map(([, label = '']) => label);
        const own = labels.filter((label) => !scraped(label)).sort();
        expect([alert, metric, own]).toEqual([
          alert,
          metric,
          [...(known.get(metric) ?? FOREIGN.get(metric) ?? ['no such metric'])].sort(),
        ]);
      }
    }
  });

  it('have an entry in the runbook each: what it means, what to look at, what to do, with commands', async () => {
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

  it('look at each metric of which docs/metrics.md says that there is an alert', async () => {
    const asked = alerts.flatMap(({ expr }) => readQuery(expr).selectors.map(({ metric }) => metric));
    const alerted = await alertedMetrics();
    expect(alerted.length).toBeGreaterThan(7);
    expect(alerted.filter((metric) => !asked.includes(metric))).toEqual([]);
  });

  it('are quoted by no other name in the file than the chart replaces', async () => {
    const text = await readFile(ALERTS_FILE, 'utf8');
    expect(new Set(text.match(/namespace="[^"]*"/g))).toEqual(new Set(['namespace="weighbridge"']));
    expect(new Set(text.match(/pod=~"[^"]*"/g))).toEqual(
      new Set(['pod=~"weighbridge-(control-plane|data-plane|metering)-.*"']),
    );
  });
});
