import { useState } from 'preact/hooks';
import { ApiError } from '../api/client';
import { enter } from '../state/session';
import { Button } from '../ui/button';

// The token goes to the server once and is kept nowhere in the page.
export function LoginScreen() {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const token = String(new FormData(form).get('token') ?? '').trim();
    if (token === '') return setError('Paste a token first.');
    setBusy(true);
    setError('');
    try {
      await enter(token);
      form.reset();
    } catch (problem) {
      const known = problem instanceof ApiError && problem.status === 401;
      setError(
        known
          ? 'The server does not know this token.'
          : problem instanceof Error
            ? problem.message
            : String(problem),
      );
    }
    setBusy(false);
  };
  return (
    <div class="login" data-testid="screen-login">
      <form class="login-card" onSubmit={submit}>
        <img src="/favicon.svg" alt="" />
        <div>
          <h1>caisson</h1>
          <p class="lead">Log in with a token of this server.</p>
        </div>
        <div class="field">
          <label for="login-token">Token</label>
          <input
            id="login-token"
            name="token"
            type="password"
            autocomplete="current-password"
            placeholder="cais_…"
            autofocus
            data-testid="login-token"
          />
        </div>
        {error && (
          <p class="form-error" role="alert" data-testid="login-error">
            {error}
          </p>
        )}
        <Button type="submit" kind="primary" disabled={busy} testid="login-submit">
          Log in
        </Button>
        <small>
          The server printed one at its first start; <code>caisson token create</code> makes more.
        </small>
      </form>
    </div>
  );
}
