import { mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { testRun } from '@weighbridge/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { type RuleFile, readAlerts } from './alerts/alertRules.ts';
import { manifests } from './helm.ts';
import { documentedSeries, FOREIGN, type KnownSeries, labelsOfResult, unknownIn } from './knownMetrics.ts';
import { ofKind } from './manifests.ts';
import { withoutVariables } from './promql.ts';
import { promtool } from './promtool.ts';
import { CHART, read } from './repository.ts';

// The time-out allows for a download of promtool.
interface Panel {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
}

interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly templating: { readonly list: readonly { readonly name: string }[] };
  readonly panels: readonly Panel[];
}

const DASHBOARDS = ['control-stream', 'metering', 'spend', 'traffic', 'vendors'];

const dashboard = async (name: string) =>
  JSON.parse(await read(`deploy/helm/weighbridge/dashboards/${name}.json`)) as Dashboard;

const queriesOf = ({ panels }: Dashboard) =>
  panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

describe('queries', () => {
  let known: KnownSeries;
  beforeAll(async () => {
    known = new Map([...(await documentedSeries()), ...FOREIGN]);
    expect(known.size).toBeGreaterThan(60);
  });

  it('of alerts and autoscaling use only known metrics and labels', async () => {
    for (const { alert, expr } of await readAlerts())
      expect([alert, ...unknownIn(expr, known)]).toEqual([alert]);
    const named = (await read('deploy/helm/weighbridge/templates/autoscaling.yaml')).match(
      /\bweighbridge_\w+/g,
    );
    expect(named).not.toBeNull();
    for (const name of named ?? []) expect(known.has(name), name).toBe(true);
  });

  it('of dashboards use only known metrics and labels', async () => {
    for (const name of DASHBOARDS) {
      const queries = queriesOf(await dashboard(name));
      expect(queries.length, name).toBeGreaterThan(5);
      for (const query of queries) {
        expect([name, query, ...unknownIn(withoutVariables(query), known)]).toEqual([name, query]);
      }
    }
  });

  it('of dashboards have legends with labels that their results have', async () => {
    const targets = (await Promise.all(DASHBOARDS.map(dashboard))).flatMap(({ panels }) =>
      panels.flatMap((panel) => panel.targets ?? []),
    );
    for (const { expr, legendFormat = '' } of targets) {
      const labels = labelsOfResult(withoutVariables(expr), known);
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
      expect([expr, shown.filter((label) => !labels.has(label))]).toEqual([expr, []]);
    }
    expect(labelsOfResult('sum by (model) (rate(weighbridge_tokens_total[5m]))', known)).toEqual(
      new Set(['model']),
    );
  });

  it('with unknown metrics or labels are reported', () => {
    expect(unknownIn('sum(rate(weighbridge_requests[5m]))', known)).toEqual([
      'there is no metric weighbridge_requests',
    ]);
    expect(unknownIn('sum by (key) (weighbridge_leases{policy="x"})', known)).toEqual([
      'weighbridge_leases has no label policy',
      'weighbridge_leases has no label key',
    ]);
    expect(unknownIn('weighbridge_leases / on (policy) up', known)).toEqual([
      'weighbridge_leases has no label policy',
      'up has no label policy',
    ]);
    expect(unknownIn('sum(weighbridge_leases', known)[0]).toMatch(/^does not parse/);
    expect(unknownIn('1 + 1', known)).toEqual(['no metric in the query: 1 + 1']);
  });

  it('of dashboards are valid for Prometheus', async () => {
    const rules = (await Promise.all(DASHBOARDS.map(dashboard))).flatMap((one) =>
      queriesOf(one).map((query, at) => ({
        record: `${one.uid.replaceAll('-', '_')}:${at}`,
        expr: withoutVariables(query),
      })),
    );
    const file = join(await mkdtemp(join(testRun().folder, 'queries-')), 'rules.yaml');
    await writeFile(file, stringify({ groups: [{ name: 'dashboards', rules }] }));
    const { ok, output } = await promtool('check', 'rules', file);
    expect(output).toContain(`SUCCESS: ${rules.length} rules found`);
    expect(ok).toBe(true);
  });
});

describe('dashboards', () => {
  it('are these, with unique ids and titles', async () => {
    const files = await readdir(join(CHART, 'dashboards'));
    expect(files.sort()).toEqual(DASHBOARDS.map((name) => `${name}.json`));
    const all = await Promise.all(DASHBOARDS.map(dashboard));
    expect(all.map(({ uid }) => uid)).toEqual(DASHBOARDS.map((name) => `weighbridge-${name}`));
    expect(new Set(all.map(({ title }) => title)).size).toBe(DASHBOARDS.length);
  });

  it('describe each panel, have no overlapping panels, and use only their own variables', async () => {
    for (const name of DASHBOARDS) {
      const { panels, templating } = await dashboard(name);
      const places = new Set<string>();
      for (const { title, description, gridPos, targets = [] } of panels) {
        expect(description, `${name}: ${title}`).toMatch(/\.$/);
        for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
          for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
            expect(places.has(`${x} ${y}`), `${name}: ${title} overlaps another panel`).toBe(false);
            places.add(`${x} ${y}`);
          }
        expect(gridPos.x + gridPos.w, `${name}: ${title}`).toBeLessThanOrEqual(24);
        expect(targets.length, `${name}: ${title}`).toBeGreaterThan(0);
      }
      const variables = templating.list.map((variable) => `$${variable.name}`);
      const used = panels
        .flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => expr.match(/\$\w+/g) ?? []))
        .filter((variable) => !variable.startsWith('$__'));
      expect(new Set([...used, '$datasource']), name).toEqual(new Set(variables));
    }
  });
});

describe('the chart', () => {
  const all = () =>
    manifests(
      '--set',
      'fullnameOverride=gate,monitoring.alerts.enabled=true,monitoring.dashboards.enabled=true',
      '--namespace',
      'billing',
    );

  it('replaces namespace and pod names in the alerts by those of the release', async () => {
    const [rule] = ofKind(await all(), 'PrometheusRule');
    const { groups }: RuleFile = rule?.spec ?? { groups: [] };
    const text = JSON.stringify(groups);
    expect(text).not.toMatch(/namespace=\\"weighbridge\\"|pod=~\\"weighbridge-/);
    expect(text).toContain(
      'up{namespace=\\"billing\\",pod=~\\"gate-(control-plane|data-plane|metering)-.*\\"} == 0',
    );
    expect(groups.flatMap(({ rules }) => rules)).toHaveLength((await readAlerts()).length);
  });

  it('ships the dashboards unchanged', async () => {
    const maps = ofKind(await all(), 'ConfigMap').filter(({ metadata }) =>
      metadata.name.includes('-dashboard-'),
    );
    expect(maps.map(({ metadata }) => metadata.name)).toEqual(
      DASHBOARDS.map((name) => `gate-dashboard-${name}`),
    );
    for (const name of DASHBOARDS) {
      const map = maps.find(({ metadata }) => metadata.name.endsWith(`-${name}`));
      expect(JSON.parse(map?.data?.[`${name}.json`] ?? '')).toEqual(await dashboard(name));
    }
  });
});
