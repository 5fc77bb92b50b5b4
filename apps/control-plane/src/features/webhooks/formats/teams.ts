import type { Description } from '../describeEvent.ts';

/**
 * A message for a workflow of Microsoft Teams (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors): an
 * adaptive card. Names are shown as text runs, which unlike text blocks have no Markdown.
 */
export function teamsMessage({ title, facts, link }: Description): object {
  const run = (text: string, weight: 'Bolder' | 'Default') => ({ type: 'TextRun', text, weight });
  const line = (...inlines: object[]) => ({ type: 'RichTextBlock', inlines });
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            line(run(title, 'Bolder')),
            ...facts.map(([label, value]) => line(run(`${label}: `, 'Bolder'), run(value, 'Default'))),
          ],
          ...(link && { actions: [{ type: 'Action.OpenUrl', title: 'Details', url: link }] }),
        },
      },
    ],
  };
}
