// Every limit of this client that does not come from the contract.

/** For an answer that the server gives at once. */
export const callTimeoutMs = 60_000;
/** For commands, transfers and images: the longest that a server can be set to wait by itself, and some slack. */
export const longTimeoutMs = 3_630_000;
/** What is added to a time that the caller gave the server, so that the server speaks first. */
export const slackMs = 30_000;
/** A quiet stream carries a comment every 15 seconds: this much silence is a broken connection. */
export const streamSilenceMs = 60_000;

/** How often a call is sent again. */
export const retries = 2;
export const retryPauseMs = 100;
export const retryPauseMaxMs = 5_000;
/** Who is told to wait longer hears the error instead. */
export const retryAfterMaxMs = 10_000;

/** A JSON answer; the server holds at most 64 MiB for one tenant. */
export const answerBytesMax = 128 * 1024 * 1024;
/** The body of an error; a proxy in front may send a page of its own. */
export const errorBytesMax = 1024 * 1024;
/** A file that is read whole, unless the caller says otherwise. */
export const fileBytesMax = 256 * 1024 * 1024;
/** One server-sent event. */
export const eventCharsMax = 16 * 1024 * 1024;

/** What a WebSocket holds for a reader who does not read. */
export const socketHeldBytesMax = 64 * 1024 * 1024;
/** What is waiting to be sent before a writer waits, too. */
export const socketSendBytesMax = 1024 * 1024;
/** One message; the server takes up to 1 MiB. */
export const socketMessageBytesMax = 256 * 1024;
