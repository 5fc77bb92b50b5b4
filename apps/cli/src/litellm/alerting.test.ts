import { expect, it } from 'vitest';
import { mapAlerting } from './alerting.ts';
import { createReport } from './report.ts';

function mapped(general_settings: Record<string, unknown>) {
  const report = createReport();
  const webhooks = mapAlerting({ general_settings }, report);
  const said = Object.fromEntries(
    report.mappings.map(({ from, to, note }) => [from.split('.').slice(1).join('.'), to ?? `no: ${note}`]),
  );
  return { webhooks, said, text: JSON.stringify(report.mappings) };
}

it('alerting becomes webhooks, which name the variables that LiteLLM reads', () => {
  const { webhooks, said } = mapped({ alerting: ['slack', 'pagerduty', 'webhook', 'email'] });
  expect(webhooks).toEqual([
    { name: 'litellm-slack', url: 'env:SLACK_WEBHOOK_URL', format: 'slack' },
    {
      name: 'litellm-pagerduty',
      url: 'https://events.pagerduty.com/v2/enqueue',
      format: 'pagerduty',
      routing_key: 'env:PAGERDUTY_API_KEY',
    },
    { name: 'litellm-webhook', url: 'env:WEBHOOK_URL', format: 'json' },
  ]);
  expect(said['alerting.email']).toMatch(/^no: /);
});

it('alert_types become events, and those without one are said', () => {
  const { webhooks, said } = mapped({
    alerting: 'slack',
    alert_types: ['budget_alerts', 'outage_alerts', 'cooldown_deployment', 'daily_reports'],
  });
  expect(webhooks).toMatchObject([{ events: ['budget.threshold', 'budget.exhausted', 'connector.down'] }]);
  expect(said['alert_types.budget_alerts']).toBe('budget.threshold, budget.exhausted');
  expect(said['alert_types.daily_reports']).toMatch(/^no: no event/);
  const none = mapped({ alerting: ['slack'], alert_types: ['daily_reports'] });
  expect([none.webhooks, none.said['alerting.slack']]).toEqual([[], 'no: no event for what it tells of']);
});

it('addresses of single types become webhooks, without an address that is written out', () => {
  const { webhooks, said, text } = mapped({
    alerting: ['slack'],
    alert_to_webhook_url: {
      budget_alerts: ['os.environ/FINANCE_SLACK', 'https://hooks.slack.com/services/secret'],
      failed_tracking_spend: 'os.environ/FINANCE_SLACK',
      new_model_added: 'os.environ/OTHERS',
    },
  });
  expect(webhooks).toEqual([
    { name: 'litellm-slack', url: 'env:SLACK_WEBHOOK_URL', format: 'slack', events: ['connector.down'] },
    {
      name: 'litellm-finance-slack',
      url: 'env:FINANCE_SLACK',
      format: 'slack',
      events: ['budget.threshold', 'budget.exhausted', 'usage.quarantined', 'usage.gap'],
    },
    {
      name: 'litellm-slack-webhook-url-budget-alerts',
      url: 'env:SLACK_WEBHOOK_URL_BUDGET_ALERTS',
      format: 'slack',
      events: ['budget.threshold', 'budget.exhausted'],
    },
  ]);
  expect(said['alert_to_webhook_url.new_model_added']).toMatch(/^no: /);
  expect(text + JSON.stringify(webhooks)).not.toContain('services/secret');
});

it('settings of another shape convert to nothing', () => {
  for (const settings of [
    {},
    { alerting: null },
    { alerting: [{}], alert_types: 7, alert_to_webhook_url: [] },
  ])
    expect(mapped(settings).webhooks).toEqual([]);
});
