import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { AlertCase, SeriesByName } from './alertCase.ts';
import type { Alert } from './alertRules.ts';

/**
 * Writes rule tests for promtool and returns the paths of their files. Each case has its own file with only its alert, since
 * promtool evaluates all alerts of a file in every minute of every test. https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
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
      if (!rule) throw new Error(`there is a case for ${alert}, but no such alert`);
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
