import { Link } from '@tanstack/react-router';
import { Page, Section } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';

/** Settings for common clients. In a deployment with its own address for inference, that address takes the place of this one. */
export function Connect() {
  const { origin } = window.location;
  const snippets = [
    ['OpenAI SDKs and most frameworks', `export OPENAI_BASE_URL=${origin}/v1\nexport OPENAI_API_KEY=<KEY>`],
    [
      'Anthropic SDKs and Claude Code',
      `export ANTHROPIC_BASE_URL=${origin}\nexport ANTHROPIC_AUTH_TOKEN=<KEY>`,
    ],
    ['Gemini SDKs and Gemini CLI', `export GOOGLE_GEMINI_BASE_URL=${origin}\nexport GEMINI_API_KEY=<KEY>`],
    [
      'curl',
      `curl ${origin}/v1/chat/completions \\\n  -H "Authorization: Bearer <KEY>" -H "Content-Type: application/json" \\\n  -d '{"model":"mock/echo","messages":[{"role":"user","content":"Hello"}]}'`,
    ],
  ] as const;
  return (
    <Page
      title="Connect a client"
      lead={
        <>
          <Link to="/keys">Issue a key</Link>, and put it where the snippets say &lt;KEY&gt;.
        </>
      }
    >
      {snippets.map(([title, text]) => (
        <Section key={title} title={title}>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must take the focus. */}
          <pre className={styles.code} tabIndex={0}>
            {text}
          </pre>
        </Section>
      ))}
    </Page>
  );
}
