import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { AlertCase, SeriesByName } from './alertCase.ts';
import type { Alert } from './alertRules.ts';

/**
 * Writes files of rule tests, for promtool, and returns their paths: one for each case, with its alert alone, since all are
 * evaluated in each minute of each test. https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
 */
export async function writeRuleTests(
  parent: string,
  alerts: readonly Alert[],
  cases: readonly AlertCase[],
): Promise<string[]> {
  const folder = await mkdtemp(join(parent, 'rules-'));
  return await Promise.all(
    cases.map(async ({ alert, fires, quiet }, at) => {
      const rule = alerts.find((one) => one.alert === alert);
      if (!rule) throw new Error(`a case of ${alert}, which is no alert`);
      const rules = join(folder, `rules-${at}.yaml`);
      await writeFile(rules, stringify({ groups: [{ name: alert, rules: [rule] }] }));
      const expected = {
        exp_labels: { ...fires.labels, ...rule.labels },
        exp_annotations: { ...rule.annotations, description: fires.says },
      };
      const tests = join(folder, `tests-${at}.yaml`);
      await writeFile(
        tests,
        stringify({
          rule_files: [rules],
          evaluation_interval: '1m',
          tests: [
            test(`${alert} fires`, fires.series, {
              eval_time: fires.at,
              alertname: alert,
              exp_alerts: [expected],
            }),
            test(`${alert} is quiet`, quiet.series, {
              eval_time: quiet.at,
              alertname: alert,
              exp_alerts: [],
            }),
          ],
        }),
      );
      return tests;
    }),
  );
}

const test = (name: string, series: SeriesByName, expectation: object) => ({
  name,
  interval: '1m',
  input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
  alert_rule_test: [expectation],
});
