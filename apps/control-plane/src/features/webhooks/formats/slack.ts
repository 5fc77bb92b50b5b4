import type { Description } from '../describeEvent.ts';

const MAX_HEADER = 150;
const MAX_FIELDS = 10;

/**
 * A message for Slack's incoming webhooks (https://api.slack.com/messaging/webhooks). Names are shown as `plain_text`, which has
 * no markup, mentions or links. `text`, for notifications and for chats that know no blocks, has them made harmless.
 */
export function slackMessage({ title, facts, link }: Description): object {
  const plain = (text: string) => ({ type: 'plain_text', text: escaped(text), emoji: false });
  const fields = facts.slice(0, MAX_FIELDS).map(([label, value]) => plain(`${label}\n${value}`));
  return {
    text: harmless(title),
    // Nothing in the text becomes a link or a mention.
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      { type: 'header', text: plain(shortened(title)) },
      ...(fields.length > 0 ? [{ type: 'section', fields }] : []),
      ...(link ? [{ type: 'section', text: { type: 'mrkdwn', text: `<${escaped(link)}|Details>` } }] : []),
    ],
  };
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** https://api.slack.com/reference/surfaces/formatting#escaping */
function escaped(text: string): string {
  return text.replace(/[&<>]/g, (character) => ENTITIES[character] ?? character);
}

const ZERO_WIDTH_SPACE = '\u200b';

/** Without markup of Slack or Markdown, mentions and links: what would begin one is separated from what follows. */
export function harmless(text: string): string {
  return escaped(text).replace(/[@#*_~`[\]()|!\\]|:\/\/|\bwww\./g, (mark) =>
    mark === '://' ? `:${ZERO_WIDTH_SPACE}//` : `${mark}${ZERO_WIDTH_SPACE}`,
  );
}

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= MAX_HEADER ? text : `${characters.slice(0, MAX_HEADER - 1).join('')}…`;
}
