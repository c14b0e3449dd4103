// The endpoints of the morning view.

// What happened since a time (null: since this person last looked), in all graphs.
export const readToday = (api, since) => api.get("/api/today", since ? { since } : null);

// Stores up to when this person has seen what happened. Units: milliseconds since 1970.
export const markSeen = (api, time) => api.post("/api/today/seen", { time });
