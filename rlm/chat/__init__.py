"""Chats: several questions, one after another, over the same kernel. `docs/sessions.md` is their manual."""
