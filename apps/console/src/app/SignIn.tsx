import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { signIn } from '../api/client.ts';
import { Form, TextField } from '../ui/fields.tsx';
import styles from './layout.module.css';
import { SESSION_KEY } from './session.ts';

export function SignIn() {
  const queries = useQueryClient();
  useEffect(() => {
    document.title = 'Sign in · Weighbridge';
  }, []);
  const submit = async ({ key = '' }: Readonly<Record<string, string>>) => {
    queries.setQueryData(SESSION_KEY, await signIn(key));
  };
  return (
    <div className={styles.signIn}>
      <h1>Sign in to Weighbridge</h1>
      <p>
        Paste a key that was issued to you. You see what it may see: your own spend, or everyone’s for an
        operator.
      </p>
      <Form submit="Sign in" onSubmit={submit}>
        <TextField
          label="Key"
          name="key"
          type="password"
          autoComplete="off"
          required
          autoFocus
          placeholder="sk-svc-…"
        />
      </Form>
    </div>
  );
}
